// Operators: how long replies took and what failed over time, and for whom it became slower.

import { OWN_PAGES } from "./added.js";
import { apiUrl, get, query } from "./api.js";
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { filters } from "./form.js";
import { count, percentiles, plural, seconds, shortDay, time, utcDay } from "./format.js";
import { code, dim, empty, figures, head, link, notice, section, table } from "./ui.js";

const DAY_MS = 86400000;
const MINUTE_MS = 60000;
const SPANS = { "24h": ["24 hours", 1], "7d": ["7 days", 7], "30d": ["30 days", 30] };
const FILTERS = ["account", "provider", "model"];
/** Kinds of failure that have a colour of their own. */
const MAX_KINDS = 6;
const TIMES = [
  ["First byte p50", "first_byte_p50_ms", 3, false], ["First byte p95", "first_byte_p95_ms", 3, true],
  ["Total p50", "total_p50_ms", 1, false], ["Total p95", "total_p95_ms", 1, true],
];

/** The span that the address names: two times, a day, or the latest hours. */
function readSpan(params) {
  const [from, to, day] = ["from", "to", "day"].map((name) => params.get(name));
  if (day) return { from: day, to: day }; // chosen after a zoom, whose times are still in the address
  if (from && to) return { from, to };
  const [, days] = SPANS[params.get("span")] ?? SPANS["24h"];
  const end = Math.ceil(Date.now() / (5 * MINUTE_MS)) * 5 * MINUTE_MS;
  return { from: iso(end - days * DAY_MS), to: iso(end) };
}

/** Only such a span has news. It is renewed once a minute at most: a renewal may read as many calls as the page itself. */
const endsNow = (params) => !params.get("from") && [null, "", utcDay()].includes(params.get("day"));

const iso = (ms) => new Date(ms).toISOString();

/** This page with other parameters; null takes one away. */
function here(changes) {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) params.delete(name);
    else params.set(name, value);
  }
  return `/console/trends?${params}`;
}

const spanUrl = (from, to) => here({ from: iso(from), to: iso(to), day: null, span: null });

export async function trends({ params, session, signal, reload, go }) {
  const chosen = Object.fromEntries(FILTERS.map((name) => [name, params.get(name)]));
  const asked = query({ ...readSpan(params), ...chosen });
  const [view, { providers }] = await Promise.all([
    get(`/trends${asked}`, signal).catch((error) => {
      if (error.status !== 400) throw error;
      return { problem: error.message };
    }),
    get("/providers", signal),
  ]);
  const models = [...new Set([...session.models, ...providers.flatMap((one) => one.models)])];
  const top = [
    head("Trends", !view.problem && link("CSV", apiUrl(`/trends.csv${asked}`), "button", { download: "" }), endsNow(params) && h("span", { class: "live", "data-least": MINUTE_MS })),
    ranges(params, view),
    filters([
      { name: "account", label: "Account", type: "search", value: chosen.account, spellcheck: "false" },
      choice("provider", "Provider", chosen.provider, providers.map((one) => one.name)),
      choice("model", "Model", chosen.model, models),
      { name: "day", label: "Day (UTC)", type: "date", value: params.get("day") },
    ], reload),
  ];
  if (view.problem) return [top, notice("bad", view.problem)];
  if (!view.total.calls) return [top, nothing(chosen, params)];
  return [
    top,
    h("div", { class: "beside" },
      section(latest(params) ?? spanText(view), timeChart(view, go), latest(params) && h("p", { class: "dim" }, spanText(view)), sourceNote(view), stepDetails(view)),
      slowerSection(view, chosen)),
    section("Altogether", summary(view), view.total.failed > 0 && kindTable(view, chosen)),
  ];
}

/** The page without calls: nobody may have made any, or they are outside of what was chosen. */
function nothing(chosen, params) {
  if (FILTERS.some((name) => chosen[name])) return empty("No calls in this time. Choose a longer one, or fewer filters.");
  const longest = params.get("span") === "30d";
  return empty(`No calls in this time.${longest ? "" : " Choose a longer one, or make a call."}`, OWN_PAGES.some(([path]) => path === "/console/try") && link("Try it", "/console/try", "button"));
}

const choice = (name, label, value, names) => ({
  name, label, type: "select", value: value ?? "",
  options: [["", "all"], ...[...new Set([...names, value].filter(Boolean))].map((one) => [one, one])],
});

/** The title of a span that ends now, which is the same at each renewal; null for others. */
const latest = (params) => (params.get("from") || params.get("day") ? null : `The last ${(SPANS[params.get("span")] ?? SPANS["24h"])[0]}`);

const spanText = ({ from, to }) => `${when(from)} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11, 16) : when(to)} UTC`;

const when = (moment) => shortDay(moment.slice(0, 16));

function ranges(params, view) {
  const now = params.get("from") || params.get("day") ? null : SPANS[params.get("span")] ? params.get("span") : "24h";
  const [from, to] = [Date.parse(view.from), Date.parse(view.to)];
  const room = Math.min(to - from, (31 * DAY_MS - (to - from)) / 2);
  return h("p", { class: "ranges" },
    Object.entries(SPANS).map(([span, [label]]) => link(label, here({ span, from: null, to: null, day: null }), "", { "aria-current": span === now ? "true" : null })),
    params.get("from") && !view.problem && room > 0 && link("Zoom out", spanUrl(from - room, Math.min(to + room, Math.max(to, Date.now())))));
}

const sourceNote = (view) => h("p", { class: "dim" }, "Times are those of complete replies, from the request’s arrival. ",
  view.exact ? "" : "The calls are many, so this is of sums by the hour: percentiles are near, and calls count in the hour of their end. ",
  "Draw over a span to see it closer.");

function timeChart(view, go) {
  const step = view.step_seconds * 1000;
  const start = Date.parse(view.from);
  const kinds = Object.keys(view.kinds);
  const [own, rest] = [kinds.slice(0, MAX_KINDS), kinds.slice(MAX_KINDS)];
  const hasDays = Date.parse(view.to) - start > DAY_MS;
  const series = [
    { name: "Complete", text: count(view.total.calls - view.total.failed), tone: 1, say: count },
    ...own.map((kind, at) => ({ name: view.kinds[kind], text: count(view.total.failures[kind]), tone: [2, 4, 3, 6, 7, 8][at], say: count })),
    rest.length > 0 && { name: `other failures (${rest.length})`, text: count(sum(rest, view.total.failures)), tone: 9, say: count },
  ].filter(Boolean);
  const slots = Array.from({ length: (Date.parse(view.to) - start) / step }, (_, at) => {
    const moment = iso(start + at * step);
    return { at: start + at * step, label: hasDays ? when(moment) : moment.slice(11, 16), text: `${when(moment)}: no calls`, values: [null, null, null, null, ...series.map(() => 0)] };
  });
  for (const one of view.steps) {
    const slot = slots[Math.floor((Date.parse(one.at) - start) / step)];
    if (!slot) continue;
    slot.text = `${when(one.at)}: ${plural(one.calls, "call")}${one.failed ? `, ${count(one.failed)} failed` : ""}`;
    slot.values = [
      ...TIMES.map(([, name]) => (one[name] === null ? null : one[name] / 1000)),
      one.calls - one.failed, ...own.map((kind) => one.failures[kind] ?? 0), ...(rest.length ? [sum(rest, one.failures)] : []),
    ];
  }
  return chart({
    title: conclude(view),
    slots,
    plots: [timePlot("first byte, seconds", TIMES.slice(0, 2), view), timePlot("total, seconds", TIMES.slice(2), view), { unit: "calls", least: 1, series, height: 150 }],
    zoom: (first, last) => go(spanUrl(first.at, last.at + step)),
  });
}

/** First bytes have a plot of their own: they are less than totals, and tell of a slow provider whatever the replies’ length. */
const timePlot = (unit, times, view) => ({
  unit, lines: true, least: 0.001, height: 126,
  series: times.map(([name, key, tone, dashed]) => ({ name, tone, dashed, text: span(view.total[key]), say: (value) => span(value * 1000) })),
});

const sum = (kinds, failures) => kinds.reduce((all, kind) => all + (failures[kind] ?? 0), 0);

const span = (ms) => (ms === null ? "–" : `${seconds(ms)} s`);

/** The sentence above the chart: the times, beside those of the span before. */
function conclude({ total, before }) {
  const now = total.total_p50_ms === null ? "No complete reply" : `Half of the replies took up to ${span(total.total_p50_ms)}`;
  return (before?.total_p50_ms ?? null) === null || total.total_p50_ms === null ? now : `${now}, ${span(before.total_p50_ms)} in the span before`;
}

const summary = ({ total, before, exact }) => figures([
  ["Calls", (one) => count(one.calls)],
  ["Failed", (one) => count(one.failed)],
  ["First byte p50 / p95", (one) => percentiles(one.first_byte_p50_ms, one.first_byte_p95_ms, exact)],
  ["Total p50 / p95", (one) => percentiles(one.total_p50_ms, one.total_p95_ms, exact)],
].map(([name, say]) => [name, say(total), before && `${say(before)} before`]));

const TITLES = { account: "Accounts", provider: "Providers", model: "Models" };

function slowerSection({ before, slower }, chosen) {
  const possible = FILTERS.filter((name) => slower[name] && !chosen[name]);
  const shown = possible.some((name) => slower[name].compared) ? possible : [];
  const why = !before ? "The span before began more than 31 days ago, and its calls are many: nothing is compared with it."
    : possible.length ? "Too few replies to compare: it takes five in both spans."
      : FILTERS.some((name) => chosen[name]) ? "With these filters nothing else is compared."
        : "Draw over a span of up to a day, and it is compared with the one before.";
  return section("Slower than in the span before",
    shown.length ? shown.map((name) => slowerList(name, slower[name])) : h("p", { class: "dim" }, why),
    shown.length > 0 && h("p", { class: "dim" }, "p95 of the first byte then and now; the growth is that of p50 and p95 together. It takes five replies in both spans. With a hundred, totals count, too."));
}

const slowerList = (dimension, { rows, count: many, compared }) => h("div", null,
  h("h3", null, TITLES[dimension], " ", dim(`${many} of ${compared}`)),
  rows.length ? h("ul", { class: "lines" }, rows.map((one) => h("li", null,
    link(one.name, here({ [dimension]: one.name })), " ",
    h("span", null, one.measure === "total" && "total ", `${seconds(one.before[`${one.measure}_p95_ms`])} → ${span(one.now[`${one.measure}_p95_ms`])}`),
    h("b", null, `+${count(one.growth_percent)} %`)))) : h("p", { class: "dim" }, compared ? "None is slower." : "Too few replies to compare."));

/** Where the calls of a kind are listed; days are whole there. */
function callsUrl(kind, view, chosen) {
  const [outcome, status] = kind.split(" ");
  return `/console/activity${query({ ...chosen, outcome, status, from: view.from.slice(0, 10), to: iso(Date.parse(view.to) - 1).slice(0, 10) })}`;
}

const kindTable = (view, chosen) => table({
  caption: "Failures by kind",
  columns: [
    { label: "Failure", cell: ([kind, words]) => link(words, callsUrl(kind, view, chosen)) },
    { label: "Calls", right: true, cell: ([kind]) => count(view.total.failures[kind]) },
    { label: "In the span before", right: true, class: "aside", cell: ([kind]) => (view.before ? count(view.before.failures[kind] ?? 0) : "–") },
    ...FILTERS.filter((name) => !chosen[name]).map((name) => ({ label: TITLES[name], class: name === "model" ? "wide aside" : "wide", cell: ([kind]) => most(name, view.failing[kind][name]) })),
  ],
  rows: Object.entries(view.kinds),
});

/** Who had the most failures of a kind; each of them sets the filter. */
const most = (dimension, { rows, count: many }) => [
  rows.map((one, at) => [at > 0 && ", ", link(one.name, here({ [dimension]: one.name })), " ", count(one.failed)]),
  many > rows.length && h("span", { class: "dim aside" }, `, and ${count(many - rows.length)} more`),
];

/** The table of the chart’s figures. It is long, so it is made when it is opened. */
function stepDetails(view) {
  const make = (one) => one.children.length < 2 && one.append(stepTable(view));
  // A handler, and made here if it is open, so that a renewal of the page puts in what is new.
  const details = h("details", { class: "steps", ontoggle: ({ currentTarget: one }) => one.open && make(one) }, h("summary", null, "The chart as a table"));
  if (document.querySelector(".steps[open]")) make(details);
  return details;
}

const stepTable = (view) => table({
  caption: "Times and failures by step",
  columns: [
    { label: "From (UTC)", cell: (one) => time(one.at, { brief: true }) },
    { label: "Calls", right: true, cell: (one) => count(one.calls) },
    { label: "Failed", right: true, class: "wide", cell: (one) => [count(one.failed), Object.entries(one.failures).map(([kind, many]) => h("small", null, `${count(many)} × `, code(view.kinds[kind])))] },
    { label: "First byte p50 / p95", right: true, cell: (one) => percentiles(one.first_byte_p50_ms, one.first_byte_p95_ms, view.exact) },
    { label: "Total p50 / p95", right: true, cell: (one) => percentiles(one.total_p50_ms, one.total_p95_ms, view.exact) },
  ],
  rows: view.steps,
});
