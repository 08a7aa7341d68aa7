// Takes the newer pictures of a run that goes on, and exchanges what has changed in them.
"use strict";
(() => {
  const { show, localise } = globalThis.fullbore;
  const state = document.getElementById("link-state");
  const tell = (words) => {
    // Said once: a screen reader would repeat it.
    if (state.textContent !== words) state.textContent = words;
  };

  // A part is put in place of an older one; what the reader has unfolded, scrolled to, or stands on
  // stays so.
  const shown = new Map();
  const exchange = (name, html) => {
    const place = document.getElementById(name);
    if (shown.get(name) === html) return;
    const selection = getSelection();
    if (!selection.isCollapsed && place.contains(selection.anchorNode)) return;
    const ids = (of, kept) => new Map([...place.querySelectorAll(of)].map((it) => [it.id, kept(it)]));
    const unfolded = ids("details[id]", (it) => it.open);
    const scrolled = ids(".scrolls[id]", (it) => it.scrollLeft);
    const focused = place.contains(document.activeElement) ? path(document.activeElement, place) : null;
    // It was made by the program that serves this page, every name in it as text; and the page's
    // policy lets no other script run.
    place.innerHTML = html;
    shown.set(name, html);
    for (const [id, open] of unfolded) {
      const it = document.getElementById(id);
      if (it) it.open = open;
    }
    for (const [id, left] of scrolled) {
      const it = document.getElementById(id);
      if (it) it.scrollLeft = left;
    }
    if (focused) place.querySelector(focused)?.focus({ preventScroll: true });
    localise(place);
  };

  // What leads to an element that can have the focus: its own id, or that of the details it opens.
  const path = (it, place) => {
    if (it.id) return `#${CSS.escape(it.id)}`;
    const parent = it.closest("[id]");
    return parent && parent !== place ? `#${CSS.escape(parent.id)} > ${it.localName}` : null;
  };

  // What is not exchanged while some of it is selected, is afterwards.
  let last = null;
  const draw = () => {
    for (const [name, html] of last?.parts ?? []) exchange(name, html);
  };
  document.addEventListener("selectionchange", () => {
    if (getSelection().isCollapsed) draw();
  });

  const events = new EventSource(`events${location.search}`);
  events.addEventListener("picture", (event) => {
    const picture = JSON.parse(event.data);
    last = picture;
    draw();
    show(picture.curves, picture.names, picture.labels);
    document.documentElement.dataset.pictures = String(1 + Number(document.documentElement.dataset.pictures ?? 0));
    tell(picture.is_over ? `The run is over: ${picture.state}.` : "Connected: the page grows with the run.");
  });
  events.addEventListener("end", () => {
    events.close();
    const over = last?.is_over ? last.state : "unfinished";
    tell(over === "unfinished" ? "The server of this page has ended." : `The run is over: ${over}. The server of this page has ended with it.`);
  });
  events.addEventListener("error", () => {
    // The browser tries again by itself.
    tell(events.readyState === EventSource.CLOSED ? "The server of this page is gone." : "The connection is lost; trying again ...");
  });
})();
