// Instants in the zone that is configured, else in the reader's own; the exact one in UTC stays in the title.
const timeZone = document.documentElement.dataset.zone || Intl.DateTimeFormat().resolvedOptions().timeZone;
const FULL = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium", timeZone });
const CLOCK = new Intl.DateTimeFormat("sv-SE", { timeStyle: "medium", timeZone });
const AXIS = new Intl.DateTimeFormat("sv-SE", {
  day: "numeric",
  month: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  timeZone,
});

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone });
const MINUTE = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit", timeZone });
const DAYS_FROM_SECONDS = 3 * 86400;
const SECONDS_UP_TO = 600;

// Days on a long axis; the time of day on a short one, with the day where it turns.
export function axisWords(instants, spanSeconds) {
  return instants.map((instant) => {
    const time = (spanSeconds < SECONDS_UP_TO ? CLOCK : MINUTE).format(instant * 1000);
    if (time === "00:00" || time === "00:00:00") return DAY.format(instant * 1000);
    return spanSeconds > DAYS_FROM_SECONDS ? "" : time;
  });
}

export function clock(milliseconds) {
  return CLOCK.format(milliseconds);
}

export function full(milliseconds) {
  return FULL.format(milliseconds);
}

export function ago(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return `${whole} s`;
  if (whole < 5400) return `${Math.round(whole / 60)} min`;
  if (whole < 172800) return `${Math.round(whole / 3600)} h`;
  return `${Math.round(whole / 86400)} d`;
}

export function showTimes(part) {
  for (const element of part.querySelectorAll("time[datetime]")) {
    const instant = Date.parse(element.dateTime);
    if (Number.isNaN(instant)) continue;
    element.title ||= new Date(instant).toISOString();
    element.textContent = element.closest(".instants") ? AXIS.format(instant) : FULL.format(instant);
  }
  const zone = document.getElementById("zone");
  if (zone) zone.textContent = ` · times in ${timeZone}`;
}
