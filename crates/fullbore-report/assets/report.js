// Draws the curves and hands out the record. Everything else is in the page already.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const curves = read("curves");
  const names = read("names");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const palette = (n) => colour(`--line-${n % 8}`);
  const plots = [];

  // Dashed lines where checkpoints were.
  const checkpoints = {
    hooks: {
      draw: (plot) => {
        const context = plot.ctx;
        context.save();
        context.strokeStyle = colour("--faint");
        context.setLineDash([4, 4]);
        for (const at of curves.checkpoints) {
          const x = plot.valToPos(at, "x", true);
          context.beginPath();
          context.moveTo(x, plot.bbox.top);
          context.lineTo(x, plot.bbox.top + plot.bbox.height);
          context.stroke();
        }
        context.restore();
      },
    },
  };

  const draw = (id, title, unit, at, lines) => {
    const place = document.getElementById(id);
    if (!place || at.length === 0) return;
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--grid") }, ticks: { stroke: colour("--grid") } };
    const plot = new uPlot(
      {
        title,
        width: place.clientWidth,
        height: 220,
        scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
        axes: [{ ...axis, values: (_, ticks) => ticks.map((t) => `${t} s`) }, { ...axis, size: 60 }],
        series: [
          { label: "second", value: (_, v) => (v == null ? "" : `${v.toFixed(1)} s`) },
          ...lines.map(([label], n) => ({
            label,
            stroke: palette(n),
            width: 2,
            points: { show: at.length < 3 },
            value: (_, v) => (v == null ? "" : `${v.toFixed(1)} ${unit}`),
          })),
        ],
        plugins: [checkpoints],
      },
      [at, ...lines.map(([, values]) => values)],
      place,
    );
    plots.push([plot, place]);
  };

  const byTable = (values) => values.map((line, n) => [names[n], line]);
  draw("chart-bytes", "Source, MB/s", "MB/s", curves.at, byTable(curves.megabytes));
  draw("chart-rows", "Rows, thousands a second", "k/s", curves.at, byTable(curves.kilorows));
  draw("chart-server", "Server, MB/s (dashed: checkpoints)", "MB/s", curves.server_at, [
    ["write-ahead log", curves.wal],
    ["data files", curves.written],
  ]);
  addEventListener("resize", () => plots.forEach(([plot, place]) => plot.setSize({ width: place.clientWidth, height: 220 })));

  for (const time of document.querySelectorAll("time[data-unix-ms]")) {
    const date = new Date(Number(time.dataset.unixMs));
    time.dateTime = date.toISOString();
    time.textContent = date.toLocaleString();
  }

  document.getElementById("download").addEventListener("click", () => {
    const text = read("record").map((entry) => JSON.stringify(entry)).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    link.download = `${document.title.replaceAll(/[^\w-]+/g, "-")}.jsonl`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
