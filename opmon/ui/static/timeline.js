// The interactive timeline: read off values with pointer or arrow keys, drag to ask for a part of the window.
// Draws the series that the page carries and nothing more: no smoothing, and a gap is never joined.
import { ago, axisWords, full } from "./times.js";

const HEIGHT = 250;
const BAND = 9;
const STATES = ["observed", "gap", "stalled", "invalid", "down"];
// Beyond this share a state shows in the band; see the same rule where the server draws it.
const SMALLEST_SHOWN = 0.4;
const SMALLEST_GAP = 0.02;
const drawn = new WeakMap();

function color(name) {
  const probe = document.createElement("span");
  probe.className = `probe-${name}`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function palette() {
  const names = ["busy", "ceiling", "ink-soft", "edge", "edge-soft", "caution", "invalid", "alarm", "gap"];
  return Object.fromEntries(names.map((name) => [name, color(name)]));
}

function bandColor(colors, state) {
  return { observed: colors.busy, gap: colors.gap, stalled: colors.caution, invalid: colors.invalid, down: colors.alarm }[state];
}

function shown(series, index, state) {
  const total = STATES.reduce((sum, name) => sum + series.seconds[name][index], 0);
  const share = total ? series.seconds[state][index] / total : Number(state === "gap");
  if (share === 0 || (state === "gap" && share < SMALLEST_GAP)) return 0;
  return state === "observed" ? 1 : Math.max(share, SMALLEST_SHOWN);
}

// Ceiling, begun epochs and the band of states, on the chart's own canvas.
function decorate(chart, series, colors) {
  const { ctx, bbox } = chart;
  const ratio = devicePixelRatio;
  ctx.save();
  for (const [index, start] of series.start.entries()) {
    const from = chart.valToPos(start, "x", true);
    const to = chart.valToPos(start + series.step, "x", true);
    for (const state of STATES) {
      const height = BAND * ratio * shown(series, index, state);
      ctx.globalAlpha = state === "observed" ? 0.35 : 1;
      ctx.fillStyle = bandColor(colors, state);
      if (height) ctx.fillRect(from, bbox.top + bbox.height - height, Math.max(to - from, 1), height);
    }
  }
  ctx.globalAlpha = 1;
  const { ceiling } = series;
  if (ceiling !== null && ceiling <= chart.scales.y.max) line(ctx, colors.ceiling, 2 * ratio, [], () => {
    const y = chart.valToPos(ceiling, "y", true);
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
  });
  for (const [start] of series.epochs) {
    const x = chart.valToPos(start, "x", true);
    line(ctx, colors["ink-soft"], ratio, [3 * ratio, 4 * ratio], () => {
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    });
    flag(ctx, colors["ink-soft"], x, bbox.top, 8 * ratio);
  }
  ctx.restore();
}

function line(ctx, style, width, dash, path) {
  ctx.beginPath();
  ctx.strokeStyle = style;
  ctx.lineWidth = width;
  ctx.setLineDash(dash);
  path();
  ctx.stroke();
}

function flag(ctx, style, x, y, size) {
  ctx.beginPath();
  ctx.fillStyle = style;
  ctx.moveTo(x, y);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.fill();
}

function begun(series, index) {
  const [from, to] = [series.start[index], series.start[index] + series.step];
  const causes = series.epochs.filter(([start]) => from <= start && start < to).map(([, cause]) => cause.replaceAll("_", " "));
  if (causes.length > 3) return ` · ${causes.length} restarts or changes`;
  return causes.length ? ` · ${causes.join(", ")}` : "";
}

function said(series, index) {
  if (series.start[index] === undefined) return "";
  const when = full(series.start[index] * 1000);
  const states = ["stalled", "invalid", "down", "gap"].filter((name) => series.seconds[name][index] > 0);
  const rest = states.map((name) => `${name === "gap" ? "not watched" : name} ${ago(series.seconds[name][index])}`).join(", ");
  const [mean, waiting] = [series.mean[index], series.waiting[index]];
  if (mean === null) return `${when}: nothing observed (${rest})${begun(series, index)}`;
  return `${when}: mean ${mean.toFixed(2)}, max ${series.max[index]}${waiting ? `, ${waiting.toFixed(2)} waiting` : ""}${rest ? ` (${rest})` : ""}${begun(series, index)}`;
}

function options(UPlot, series, figure, colors) {
  const steps = UPlot.paths.stepped({ align: 1 });
  const axis = { stroke: colors["ink-soft"], font: "11.5px system-ui, sans-serif", grid: { stroke: colors["edge-soft"], width: 1 }, ticks: { show: false } };
  const top = Math.max(1, ...series.max, ...series.waiting);
  const [start, end] = series.window;
  return {
    width: figure.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 6, 0, 0],
    cursor: { points: { size: 6 }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true, range: [start, end] }, y: { range: [0, top * 1.12] } },
    axes: [
      { ...axis, size: 26, values: (_chart, instants) => axisWords(instants, end - start), space: 66 },
      { ...axis, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
    ],
    series: [
      {},
      { label: "max", stroke: "transparent", fill: withAlpha(colors.busy, 0.28), paths: steps, points: { show: false }, spanGaps: false },
      { label: "mean", stroke: colors.busy, width: 1.6, paths: steps, points: { show: false }, spanGaps: false },
      { label: "waiting", stroke: colors.ceiling, width: 1.4, dash: [4, 3], paths: steps, points: { show: false }, spanGaps: false },
    ],
    hooks: {
      draw: [(chart) => decorate(chart, series, colors)],
      setCursor: [(chart) => tellAt(figure, series, chart.cursor.idx)],
      setSelect: [(chart) => zoom(chart)],
    },
  };
}

function withAlpha(rgb, alpha) {
  return rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

function tellAt(figure, series, index) {
  figure.querySelector(".readout").textContent = index === null || index === undefined ? "" : said(series, index);
}

// A dragged part becomes the window of the whole page, and so of every number on it.
function zoom(chart) {
  if (chart.select.width < 4) return;
  const [from, to] = [chart.select.left, chart.select.left + chart.select.width].map((x) => Math.round(chart.posToVal(x, "x")));
  const address = new URL(location.href);
  address.searchParams.delete("window");
  address.searchParams.set("start", from);
  address.searchParams.set("end", Math.max(to, from + 1));
  location.assign(address);
}

function listen(figure, place, kept) {
  place.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const { chart, series } = kept;
    const index = Math.min(Math.max((chart.cursor.idx ?? series.start.length) + move, 0), series.start.length - 1);
    chart.setCursor({ left: chart.valToPos(series.start[index], "x") + 1, top: 10 });
  });
  new ResizeObserver(() => kept.chart.setSize({ width: place.clientWidth, height: HEIGHT })).observe(figure);
  document.addEventListener("opmon-theme", () => build(figure, kept.UPlot, kept.series, kept));
}

function build(figure, UPlot, series, kept) {
  const place = figure.querySelector(".chart");
  kept.chart?.destroy();
  place.replaceChildren();
  Object.assign(kept, { UPlot, series, chart: new UPlot(options(UPlot, series, figure, palette()), [series.start, series.max, series.mean, series.waiting], place) });
}

function placeFor(figure) {
  const place = document.createElement("div");
  place.className = "chart";
  place.tabIndex = 0;
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", "Timeline; arrow keys read off values, dragging chooses a window. The table below has the same figures.");
  figure.prepend(place);
  return place;
}

async function draw(figure) {
  const { default: UPlot } = await import("./vendor/uplot/uPlot.esm.js");
  const text = figure.dataset.series;
  const kept = drawn.get(figure) ?? {};
  if (kept.text === text) return;
  const first = !drawn.has(figure);
  const place = first ? placeFor(figure) : figure.querySelector(".chart");
  figure.classList.add("drawn");
  build(figure, UPlot, JSON.parse(text), kept);
  kept.text = text;
  drawn.set(figure, kept);
  if (first) listen(figure, place, kept);
}

// The server's picture stays where the library is absent.
export function drawTimeline(part) {
  for (const figure of part.querySelectorAll(".plot[data-chart]")) draw(figure).catch(() => {});
}
