// Keeps the page true: asks for itself again, and puts in what changed. Never looks live over old data.
// The server draws every part; a part is replaced only when its text differs. Stops while the page is hidden.
import { ago, clock, full } from "./times.js";

const EVERY_MS = 5000;
const GIVE_UP_MS = 20000;
// A server that is slow to answer is asked less often: at most this share of the time is spent waiting for it.
const REST = 4;
const TICK_MS = 1000;

const state = { tag: null, parts: new Map(), answeredAt: Date.now(), lost: false, timer: 0, restMs: EVERY_MS, skewMs: 0, dress: () => {} };

function partsOf(page) {
  return [...page.querySelectorAll("[data-live]")];
}

function remember(page) {
  for (const part of partsOf(page)) state.parts.set(part.id, part.outerHTML);
}

// A details element that the reader opened stays open, and focus stays where it was.
function replace(fresh) {
  const old = document.getElementById(fresh.id);
  if (!old || state.parts.get(fresh.id) === fresh.outerHTML) return;
  if (old.contains(document.activeElement) && document.activeElement.matches("input, select, textarea, .chart")) return;
  if (String(getSelection()) && old.contains(getSelection().anchorNode)) return;
  state.parts.set(fresh.id, fresh.outerHTML);
  const focused = old.contains(document.activeElement) ? pathTo(old, document.activeElement) : null;
  const part = document.importNode(fresh, true);
  for (const details of part.querySelectorAll("details[id]")) {
    const before = document.getElementById(details.id);
    if (before) details.open = before.open;
  }
  keepChart(old, part);
  old.replaceWith(part);
  state.dress(part);
  if (focused) follow(part, focused)?.focus({ preventScroll: true });
}

// The chart is moved over as it is and draws the new series, so that it does not flicker.
function keepChart(old, part) {
  const [before, after] = [old.querySelector(".plot.drawn"), part.querySelector(".plot")];
  if (!before || !after) return;
  before.dataset.series = after.dataset.series;
  for (const name of [".lines", ".band", ".instants"]) before.querySelector(name).replaceWith(after.querySelector(name));
  after.replaceWith(before);
}

function pathTo(root, element) {
  const path = [];
  for (let node = element; node !== root; node = node.parentElement) path.unshift([...node.parentElement.children].indexOf(node));
  return path;
}

function follow(root, path) {
  return path.reduce((node, index) => node?.children[index], root);
}

async function ask() {
  const headers = { Accept: "text/html" };
  if (state.tag) headers["If-None-Match"] = state.tag;
  const answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(GIVE_UP_MS) });
  if (answer.status !== 304 && !answer.ok) throw new Error(`status ${answer.status}`);
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) state.skewMs = date - Date.now();
  if (answer.status === 304) return;
  state.tag = answer.headers.get("ETag");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of partsOf(page)) replace(part);
}

async function poll() {
  clearTimeout(state.timer);
  if (document.hidden) return tell();
  const asked = performance.now();
  try {
    await ask();
    state.answeredAt = Date.now();
    state.lost = false;
    beat();
  } catch {
    state.lost = true;
  }
  tell();
  state.restMs = Math.max(EVERY_MS, REST * (performance.now() - asked));
  state.timer = setTimeout(poll, state.restMs);
}

function beat() {
  const pulse = document.querySelector(".pulse");
  pulse?.classList.remove("beat");
  requestAnimationFrame(() => pulse?.classList.add("beat"));
}

function tell() {
  const fresh = document.getElementById("fresh");
  if (!fresh) return;
  const seconds = (Date.now() - state.answeredAt) / 1000;
  const lost = state.lost || (!document.hidden && seconds > (state.restMs + GIVE_UP_MS) / 1000);
  fresh.dataset.liveState = lost ? "lost" : document.hidden ? "paused" : "live";
  document.getElementById("fresh-text").textContent = lost ? `no answer for ${ago(seconds)}` : `updated ${ago(seconds)} ago`;
  show("stale", lost, "stale-since", state.answeredAt, full);
  tellAge();
}

// The age of the data itself: opmon may answer well and yet have stopped scraping.
function tellAge() {
  const { scraped, oldAfter } = document.getElementById("answer")?.dataset ?? {};
  if (!scraped || !state.skewMs || state.lost) return;
  const age = (Date.now() + state.skewMs) / 1000 - Number(scraped);
  const told = document.querySelector("#conditions .alarm");
  show("old", age > Number(oldAfter) + EVERY_MS / 1000 && !told, "old-since", Number(scraped) * 1000, clock);
}

function show(id, wanted, timeId, instant, words) {
  const banner = document.getElementById(id);
  if (!banner || (banner.hidden && !wanted)) return;
  banner.hidden = !wanted;
  document.getElementById(timeId).textContent = words(instant);
}

export function startLive(dress) {
  if (!document.querySelector("[data-live]")) return;
  state.dress = dress;
  state.tag = document.body.dataset.tag ?? null;
  remember(document);
  document.addEventListener("visibilitychange", () => (document.hidden ? tell() : poll()));
  setInterval(tell, TICK_MS);
  state.timer = setTimeout(poll, EVERY_MS);
  tell();
}
