"""What must be true of every page, whatever it shows."""

from __future__ import annotations

from world import Watched

# A copy of a chart's canvas: reading from the page's own would slow the page, and be warned of.
READ = """const read = (canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return context.getImageData(0, 0, canvas.width, canvas.height).data;
};"""

# Colours that a chart was drawn in, apart from its ground.
INKS = """id => {
  %s
  const canvas = document.querySelector(`#${id} canvas`);
  if (!canvas || canvas.width === 0) return -1;
  const data = read(canvas);
  const inks = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) inks.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  }
  return inks.size;
}""".replace("%s", READ)

# Whether the first line's own colour is on the chart.
DRAWN = """([id, line]) => {
  %s
  const canvas = document.querySelector(`#${id} canvas`);
  const style = getComputedStyle(document.documentElement);
  const colour = style.getPropertyValue(`--line-${line}`).trim();
  const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const data = read(canvas);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (wanted.every((part, n) => Math.abs(part - data[at + n]) < 6) && data[at + 3] > 200) found++;
  }
  return found;
}""".replace("%s", READ)

# Text whose contrast with what is behind it is less than WCAG's 4.5.
FAINT = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (it) => {
    for (let at = it; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const it of document.querySelectorAll("body *")) {
    const own = [...it.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !it.checkVisibility() || it.closest("script, style")) continue;
    const [a, b] = [light(parse(getComputedStyle(it).color)), light(behind(it))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${it.localName}.${it.className}: ${contrast.toFixed(2)}`);
  }
  return faint;
}"""

# What can have the focus and is there to be seen.
FOCUSABLE = "a[href], button, summary, [tabindex='0'], input, select"


def charts_are_drawn(page: Watched, *ids: str) -> None:
    for name in ids:
        assert page.page.evaluate(INKS, name) > 3, f"{name} is blank"
        assert page.page.evaluate(DRAWN, [name, 0]) > 20, f"{name} has no line"


def has_room(page: Watched) -> None:
    """Nothing sticks out to the side."""
    wide, window = page.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= window, f"{wide} pixels in {window}"


def can_be_read(page: Watched) -> None:
    assert page.page.evaluate(FAINT) == []


def can_be_reached_by_keys(page: Watched) -> None:
    """Tab leads to everything that does something, each with a name, each to be seen."""
    page.page.evaluate("document.activeElement?.blur(); scrollTo(0, 0)")
    wanted = page.page.evaluate(
        f"[...document.querySelectorAll({FOCUSABLE!r})].filter(it => it.checkVisibility()).length"
    )
    reached = []
    for _ in range(wanted + 1):
        page.page.keyboard.press("Tab")
        at = page.page.evaluate(
            """selector => {
              const it = document.activeElement;
              if (!it || it === document.body) return null;
              const all = [...document.querySelectorAll(selector)];
              const outline = getComputedStyle(it).outlineStyle !== "none";
              const name = it.getAttribute("aria-label") ?? it.textContent.trim();
              return [all.indexOf(it), name, outline];
            }""",
            FOCUSABLE,
        )
        if at is None:
            break
        number, name, outline = at
        assert name, f"no name: {at}"
        assert outline, f"the focus can't be seen: {at}"
        reached.append(number)
    assert len(set(reached)) == wanted, f"{len(set(reached))} of {wanted} reached"


def is_told_to_those_who_cannot_see(page: Watched) -> None:
    """Every picture has words, every table headings."""
    nameless = page.page.evaluate(
        """() => [...document.querySelectorAll("svg, figure, canvas, progress, [role=region]")]
          .filter(it => it.checkVisibility())
          .filter(it => !it.closest("[aria-label]") && it.getAttribute("aria-hidden") !== "true")
          .map(it => it.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    assert page.page.evaluate("document.querySelectorAll('main table:not(.u-legend)').length") > 0
    headless = page.page.evaluate(
        "[...document.querySelectorAll('main table:not(.u-legend)')].filter(t => !t.tHead).length"
    )
    assert headless == 0
    tree = page.page.locator("body").aria_snapshot()
    for wanted in ["main", "banner", 'heading "fullbore run', 'region "Tables"', "columnheader"]:
        assert wanted in tree, f"{wanted} is not in\n{tree}"
