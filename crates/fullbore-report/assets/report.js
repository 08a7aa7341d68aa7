// Draws the curves and hands out the record. Everything else is in the page already.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const root = document.documentElement;
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const HEIGHT = 220;
  // Seconds between marks of time: what people count in.
  const TICKS = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200,
    10800, 21600, 43200, 86400, 172800, 432000, 864000,
  ];
  let curves = read("curves");
  // By the id of its place: the plot, and what it was made of.
  const plots = new Map();

  // Dashed lines where checkpoints were; only their upper ends where they are many.
  const checkpoints = (plot) => {
    const context = plot.ctx;
    const { left, top, width, height } = plot.bbox;
    const many = curves.checkpoints.length * 40 * devicePixelRatio > width;
    const length = many ? Math.min(height, 8 * devicePixelRatio) : height;
    context.save();
    context.strokeStyle = colour("--faint");
    context.setLineDash([4, 4]);
    for (const at of curves.checkpoints) {
      const x = plot.valToPos(at, "x", true);
      if (x < left || x > left + width) continue;
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + length);
      context.stroke();
    }
    context.restore();
  };

  // What a curve's legend does at a click, it does at a key too.
  const legend = (plot) => {
    for (const name of plot.root.querySelectorAll(".u-legend tr:not(:first-child) > th")) {
      const row = name.parentElement;
      const shown = () => name.setAttribute("aria-pressed", String(!row.classList.contains("u-off")));
      name.tabIndex = 0;
      name.setAttribute("role", "button");
      name.addEventListener("click", shown);
      name.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        name.click();
      });
      shown();
    }
  };

  const duration = (s) => {
    if (s < 120) return `${+s.toFixed(s < 10 ? 2 : 1)} s`;
    const minutes = Math.floor(s / 60);
    const pad = (n) => String(n).padStart(2, "0");
    if (minutes < 60) return `${minutes}:${pad(Math.round(s) % 60)} min`;
    return `${Math.floor(minutes / 60)}:${pad(minutes % 60)} h`;
  };

  const number = (v) => (v == null ? "" : v >= 100 ? v.toFixed(0) : v.toFixed(1));

  const draw = (id, title, unit, at, lines) => {
    const place = document.getElementById(id);
    const empty = at.length === 0 || lines.length === 0;
    place.hidden = empty;
    if (empty) return;
    const data = [at, ...lines.map(([, values]) => values)];
    const labels = JSON.stringify(lines.map(([label]) => label));
    const known = plots.get(id);
    if (known && known.labels === labels) {
      known.plot.setData(data);
      return;
    }
    known?.plot.destroy();
    const axis = {
      stroke: () => colour("--text"),
      grid: { stroke: () => colour("--grid"), width: 1 },
      ticks: { stroke: () => colour("--grid"), width: 1 },
      font: "12px system-ui, sans-serif",
    };
    const plot = new uPlot(
      {
        title,
        width: place.clientWidth,
        height: HEIGHT,
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [
          { ...axis, space: 70, incrs: TICKS, values: (_, ticks) => ticks.map(duration) },
          { ...axis, size: 56, values: (_, ticks) => ticks.map((t) => +t.toFixed(3)) },
        ],
        cursor: { drag: { x: false, y: false } },
        series: [
          { label: "at", value: (_, v) => (v == null ? "" : duration(v)) },
          ...lines.map(([label], n) => ({
            label,
            stroke: () => colour(`--line-${n % 8}`),
            width: 2,
            points: { show: false },
            value: (_, v) => (v == null ? "" : `${number(v)} ${unit}`),
          })),
        ],
        hooks: { draw: [checkpoints], ready: [legend] },
      },
      data,
      place,
    );
    plots.set(id, { plot, labels });
  };

  const show = (newer, names, labels) => {
    curves = newer;
    const byTable = (values) => values.map((line, n) => [names[n], line]);
    const marked = curves.checkpoints.length > 0 ? " (dashed: checkpoints)" : "";
    draw("chart-bytes", `Source, MB/s${marked}`, "MB/s", curves.at, byTable(curves.megabytes));
    draw("chart-rows", "Rows, thousands a second", "k/s", curves.at, byTable(curves.kilorows));
    draw("chart-server", `Server, MB/s${marked}`, "MB/s", curves.server_at, [
      ["write-ahead log", curves.wal],
      ["data files", curves.written],
    ]);
    for (const [id, label] of labels) document.getElementById(id).setAttribute("aria-label", label);
    document.getElementById("no-rate").hidden = curves.at.length > 0;
  };

  // Times in the reader's own zone.
  const localise = (place) => {
    for (const time of place.querySelectorAll("time[data-unix-ms]")) {
      const date = new Date(Number(time.dataset.unixMs));
      if (Number.isNaN(date.valueOf())) continue;
      time.dateTime = date.toISOString();
      time.textContent = date.toLocaleString();
    }
  };

  const redraw = () => plots.forEach(({ plot }) => plot.redraw(true, true));
  const resize = () => {
    for (const [id, { plot }] of plots) {
      const width = document.getElementById(id).clientWidth;
      if (width > 0) plot.setSize({ width, height: HEIGHT });
    }
  };
  addEventListener("resize", resize);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  // Paper is white, whatever the screen is; what is folded away can't be unfolded there.
  addEventListener("beforeprint", () => {
    root.classList.add("paper");
    document.querySelectorAll("details:not([open])").forEach((it) => it.setAttribute("data-unfolded", ""));
    document.querySelectorAll("details[data-unfolded]").forEach((it) => (it.open = true));
    redraw();
  });
  addEventListener("afterprint", () => {
    root.classList.remove("paper");
    document.querySelectorAll("details[data-unfolded]").forEach((it) => {
      it.open = false;
      it.removeAttribute("data-unfolded");
    });
    redraw();
  });

  show(curves, read("names"), read("labels"));
  localise(document);

  document.getElementById("download")?.addEventListener("click", () => {
    const text = read("record").map((entry) => JSON.stringify(entry)).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    link.download = `${document.title.replaceAll(/[^\w-]+/g, "-")}.jsonl`;
    link.click();
    URL.revokeObjectURL(link.href);
  });

  globalThis.fullbore = { show, localise };
})();
