// Usage: stacked bars by model, the table with its totals under them, both from one answer.

import { apiUrl, get, query } from "./api.js";
import { MAX_SERIES, chart } from "./chart.js";
import { h } from "./dom.js";
import { amountText, count, fromNano, plural, shortDay, toNano, utcDay } from "./format.js";
import { filters } from "./form.js";
import { code, empty, head, keyOptions, link, notice, section, table, tokenColumns } from "./ui.js";

const RANGES = [["7 days", 6], ["30 days", 29], ["90 days", 89], ["1 year", 364]];
const METRICS = {
  money: { read: (point) => toNano(point.cost), show: (sum) => amountText(fromNano(sum)), scale: 1e9 },
  tokens: { read: (point) => BigInt(point.tokens), show: (sum) => plural(String(sum), "token"), scale: 1 },
  requests: { read: (point) => BigInt(point.requests), show: (sum) => plural(String(sum), "call"), scale: 1 },
};
const GROUPS = { day: "Day (UTC)", hour: "Hour (UTC)", model: "Model", key: "Key" };
const DAY_MS = 86400000;
const MAX_BARS = 124;

function readFilters() {
  const params = new URLSearchParams(location.search);
  const read = (name) => params.get(name) || null;
  return {
    by: read("by") ?? "day", from: read("from") ?? utcDay(-29), to: read("to") ?? utcDay(),
    key: read("key"), model: read("model"), show: METRICS[read("show")] ? read("show") : "money",
  };
}

export async function usage({ signal }) {
  const chosen = readFilters();
  const [keys, first] = await Promise.all([get("/keys?status=all&limit=200", signal), load(chosen, signal)]);
  const results = h("div", { class: "stack", "aria-live": "off" });
  const actions = h("span", { class: "actions" });
  const ranges = h("p", { class: "ranges" });
  const show = (view) => {
    const now = readFilters();
    const { show: _, ...asked } = now;
    ranges.replaceChildren(...RANGES.map(([label, days]) => link(label, rangeUrl(days), "", {
      "aria-current": view.from === utcDay(-days) && view.to === utcDay() ? "true" : null,
    })));
    actions.replaceChildren(
      link("JSON", apiUrl(`/usage${query(asked)}`), "button", { download: `usage-${view.from}-${view.to}.json` }),
      link("CSV", apiUrl(`/usage.csv${query(asked)}`), "button", { download: "" }));
    results.replaceChildren(
      section(GROUPS[view.by] === GROUPS.hour ? "By hour and model" : "By day and model", usageChart(view, now.show)),
      section(`By ${view.by}`, usageTable(view)));
  };
  const change = async () => {
    try {
      show(await load(readFilters(), signal));
    } catch (error) {
      // A range that cannot be is mended in the filters, which stay.
      if (error.status !== 400) throw error;
      results.replaceChildren(notice("bad", error.message));
    }
  };
  const form = filters(fields(chosen, keys.keys, first.models), change);
  show(first);
  return [head("Usage", actions), ranges, form, results];
}

const load = ({ show: _, ...asked }, signal) => get(`/usage${query(asked)}`, signal);

function rangeUrl(days) {
  const params = new URLSearchParams(location.search);
  params.set("from", utcDay(-days));
  params.set("to", utcDay());
  if (params.get("by") === "hour" && days > 30) params.delete("by");
  return `/console/usage?${params}`;
}

function fields(chosen, keys, models) {
  const any = (label, options) => [["", label], ...options];
  return [
    { name: "from", label: "From", type: "date", value: chosen.from, required: true },
    { name: "to", label: "To (UTC)", type: "date", value: chosen.to, required: true },
    { name: "by", label: "Table by", type: "select", value: chosen.by, options: Object.keys(GROUPS).map((by) => [by, by]) },
    { name: "model", label: "Model", type: "select", value: chosen.model ?? "", options: any("all", withChosen(models.map((id) => [id, id]), chosen.model)) },
    { name: "key", label: "Key", type: "select", value: chosen.key ?? "", options: any("all", withChosen(keyOptions(keys), chosen.key)) },
    { name: "show", label: "Chart of", type: "select", value: chosen.show, options: Object.keys(METRICS).map((name) => [name, name]) },
  ];
}

const withChosen = (options, chosen) => (!chosen || options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]]);

/** The bars: days or hours of the range, those without calls too; more than fit are put together. */
function makeSlots({ from, to, chart: { unit } }, width) {
  const hourly = unit === "hour";
  const step = hourly ? DAY_MS / 24 : DAY_MS;
  const start = Date.parse(from);
  const steps = (Date.parse(to) + DAY_MS - start) / step;
  const size = steps <= MAX_BARS ? 1 : hourly ? 6 : 7;
  const span = size === 1 ? "" : ` and ${size - 1} ${unit}s more`;
  const slots = Array.from({ length: Math.ceil(steps / size) }, (_, index) => {
    const iso = new Date(start + index * size * step).toISOString();
    const label = shortDay(hourly ? iso : iso.slice(0, 10));
    return { label, span, sum: 0n, values: new Array(width).fill(0) };
  });
  return { slots, find: (at) => slots[Math.floor((Date.parse(at) - start) / (size * step))] };
}

function sumBy(points, name, read) {
  const sums = new Map();
  for (const point of points) sums.set(point[name], (sums.get(point[name]) ?? 0n) + read(point));
  return sums;
}

const larger = ([, one], [, other]) => (one < other ? 1 : one > other ? -1 : 0);

function usageChart(view, show) {
  const { read, show: say, scale } = METRICS[show];
  const { points } = view.chart;
  const models = [...sumBy(points, "model", read)].sort(larger);
  const top = models.slice(0, MAX_SERIES);
  const rest = models.slice(MAX_SERIES);
  const place = new Map(top.map(([model], index) => [model, index]));
  const series = top.map(([name, sum]) => ({ name, text: say(sum) }));
  if (rest.length) series.push({ name: `other (${rest.length})`, text: say(rest.reduce((sum, [, one]) => sum + one, 0n)) });
  const { slots, find } = makeSlots(view, series.length);
  for (const point of points) {
    const slot = find(point.at);
    slot.sum += read(point);
    slot.values[place.get(point.model) ?? MAX_SERIES] += Number(read(point)) / scale;
  }
  for (const slot of slots) slot.text = `${slot.label}${slot.span}: ${say(slot.sum)}`;
  return chart({ title: conclude(view, sumBy(points, "at", read), say), slots, series, least: 1 / scale, emptyText: points.length ? "" : "No calls in this range" });
}

function conclude({ from, to, chart: { points } }, sums, say) {
  if (!points.length) return "No calls in this range";
  const days = (Date.parse(to) - Date.parse(from)) / DAY_MS + 1;
  const total = [...sums.values()].reduce((sum, one) => sum + one, 0n);
  const [most] = [...sums].sort(larger)[0];
  return `${say(total)} in ${plural(days, "day")}${total && sums.size > 1 ? `, most on ${shortDay(most)}` : ""}`;
}

const NAMES = {
  day: (row) => h("time", { datetime: row.day }, row.day),
  hour: (row) => h("time", { datetime: row.hour }, row.hour.slice(0, 16).replace("T", " ")),
  model: (row) => code(row.model),
  key: (row) => [row.key_name || "unnamed", " ", code(row.key_display)],
};

function usageTable(view) {
  if (!view.rows.length) return empty("No calls in this range. Choose a longer one, or fewer filters.");
  const { totals } = view;
  return table({
    caption: `Usage by ${view.by}`,
    columns: [
      { label: GROUPS[view.by], cell: (row) => (row === totals ? "Total" : NAMES[view.by](row)) },
      { label: "Calls", right: true, cell: (row) => count(row.requests) },
      ...tokenColumns(view.rows),
      { label: "Cost", money: (row) => row.cost },
    ],
    rows: view.rows,
    foot: totals,
  });
}
