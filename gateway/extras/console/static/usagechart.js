// The chart of usage: stacked bars by model, made of the points of one answer.

import { query } from "./api.js";
import { MAX_SERIES, chart } from "./chart.js";
import { amount, amountText, fromNano, plural, roundText, shortDay, toNano, unit } from "./format.js";

const counted = (name, one) => {
  const say = (sum) => plural(String(sum), one);
  return { read: (point) => BigInt(point[name]), say, round: say, show: say, unit: () => `${one}s`, scale: 1 };
};

/** How to read a point, and to show a sum: exact (`say`), rounded, and in the legend (`show`). */
export const METRICS = {
  money: {
    read: (point) => toNano(point.cost),
    say: (sum) => amountText(fromNano(sum)), round: (sum) => roundText(fromNano(sum)), show: (sum) => amount(fromNano(sum)),
    unit, scale: 1e9,
  },
  tokens: counted("tokens", "token"),
  requests: counted("requests", "call"),
};
const DAY_MS = 86400000;
const MAX_BARS = 124;

/** The bars: days or hours of the range, those without calls too; more than fit are put together. */
export function makeSlots({ from, to, chart: { unit } }, width) {
  const hourly = unit === "hour";
  const step = hourly ? DAY_MS / 24 : DAY_MS;
  const start = Date.parse(from);
  const steps = (Date.parse(to) + DAY_MS - start) / step;
  const size = steps <= MAX_BARS ? 1 : hourly ? 6 : 7;
  const span = size === 1 ? "" : ` and ${size - 1} ${unit}s more`;
  const slots = Array.from({ length: Math.ceil(steps / size) }, (_, index) => {
    const iso = new Date(start + index * size * step).toISOString();
    const label = shortDay(hourly ? iso : iso.slice(0, 10));
    const last = new Date(Math.min(start + (index + 1) * size * step, Date.parse(to) + DAY_MS) - 1);
    return { label, span, day: iso.slice(0, 10), end: last.toISOString().slice(0, 10), sum: 0n, values: new Array(width).fill(0) };
  });
  return { slots, find: (at) => slots[Math.floor((Date.parse(at) - start) / (size * step))] };
}

/** Shows the days of bars that were chosen; one day by the hour, unless the table is by something else. */
export const zoomTo = (go, chosen) => ({ day: from }, { end: to }) => {
  const by = chosen.by && chosen.by !== "day" ? chosen.by : from === to ? "hour" : null;
  go(`/console/usage${query({ ...chosen, by, from, to })}`);
};

function sumBy(points, name, read) {
  const sums = new Map();
  for (const point of points) sums.set(point[name], (sums.get(point[name]) ?? 0n) + read(point));
  return sums;
}

const larger = ([, one], [, other]) => (one < other ? 1 : one > other ? -1 : 0);

/** `most`: how many models have a colour of their own. `zoom(first, last)` is called with bars that were chosen. */
export function usageChart(view, show, most = MAX_SERIES, zoom = null) {
  const metric = METRICS[show];
  const { read, scale } = metric;
  const { points } = view.chart;
  const models = [...sumBy(points, "model", read)].sort(larger);
  const top = models.slice(0, most);
  const rest = models.slice(most);
  const place = new Map(top.map(([model], index) => [model, index]));
  const say = (value) => metric.show(BigInt(Math.round(value * scale)));
  const series = top.map(([name, sum]) => ({ name, say, text: metric.show(sum) }));
  if (rest.length) series.push({ say, name: `other (${rest.length})`, text: metric.show(rest.reduce((sum, [, one]) => sum + one, 0n)) });
  const { slots, find } = makeSlots(view, series.length);
  for (const point of points) {
    const slot = find(point.at);
    slot.sum += read(point);
    slot.values[place.get(point.model) ?? most] += Number(read(point)) / scale;
  }
  for (const slot of slots) slot.text = `${slot.label}${slot.span}: ${metric.say(slot.sum)}`;
  return chart({
    title: conclude(view, sumBy(points, "at", read), metric.round), unit: metric.unit(),
    slots, series, least: 1 / scale, zoom, picks: zoom !== null,
  });
}

function conclude({ from, to, chart: { points } }, sums, say) {
  if (!points.length) return "No calls in this range";
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  const total = [...sums.values()].reduce((sum, one) => sum + one, 0n);
  const [most] = [...sums].sort(larger)[0];
  return `${say(total)} in ${plural(days, "day")}${total && sums.size > 1 ? `, most on ${shortDay(most)}` : ""}`;
}
