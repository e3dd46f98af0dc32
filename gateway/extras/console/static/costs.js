// Operators: what was charged, what providers bill for it, and the margin.

import { apiUrl, get, query } from "./api.js";
import { h } from "./dom.js";
import { filters } from "./form.js";
import { amount, amountText, count, fromNano, groupAmount, roundAmount, roundText, toNano, unit, utcDay } from "./format.js";
import { accountLink } from "./links.js";
import { latestDays, latestMonths, rangeFields, rangeLinks } from "./period.js";
import { code, empty, head, link, section, table } from "./ui.js";

const GROUPS = { model: "Model", account: "Account", provider: "Provider", day: "Day (UTC)" };

export async function costs(context) {
  const { params, signal, reload } = context;
  const chosen = {
    from: params.get("from") ?? utcDay(-29), to: params.get("to") ?? utcDay(),
    by: GROUPS[params.get("by")] ? params.get("by") : "model", account: params.get("account"),
  };
  const [view, scripts] = await Promise.all([get(`/costs${query(chosen)}`, signal), Promise.all(["chart", "usagechart"].map(context.load))]);
  const more = await context.parts("costs", context, view);
  const { costed_requests: costed, reported_requests: reported } = view.totals;
  return [
    head("Costs", link("CSV", apiUrl(`/costs.csv${query(chosen)}`), "button", { download: "" })),
    rangeLinks(view, [...latestDays(), ...latestMonths()]),
    filters([
      ...rangeFields(chosen),
      { name: "by", label: "Table by", type: "select", value: chosen.by, options: Object.keys(GROUPS).map((by) => [by, by]) },
      { name: "account", label: "Account", type: "search", value: chosen.account ?? "", placeholder: "all", spellcheck: "false" },
    ], reload),
    section("By day", costChart(view, ...scripts)),
    section(`By ${view.by}`,
      view.rows.length > 0 && !costed && !reported && h("p", null, "No cost is known in this range. Set ", code("cost"), " beside a model’s ", code("price"), " in gateway.toml."),
      more,
      view.rows.length ? costTable(view, reported > 0) : empty("No calls in this range. Choose a longer one.", link("One year", `?from=${utcDay(-364)}&to=${utcDay()}`))),
  ];
}

/** Of what was charged where the cost is known. */
const percent = (row) => row.charged_with_cost_nano > 0 && h("small", null, `${(100 * row.margin_nano / row.charged_with_cost_nano).toFixed(1).replace("-", "−")} %`);

const excess = (row) => row.reported_excess_nano && h("small", null, "excess ", groupAmount(roundAmount(row.reported_excess)));

const NAMES = { model: (row) => code(row.model), account: (row) => accountLink(row.account), provider: (row) => row.provider, day: (row) => row.day };

const costTable = ({ by, rows, totals, unknown }, hasReports) => [
  h("p", { class: "dim" }, "Cost and margin are those of the calls with a known cost."),
  unknown.length > 0 && h("p", { class: "words" }, "Calls without a known cost: ", unknown.join(", "), "."),
  table({
    caption: `What providers bill, by ${by}`,
    columns: [
      { label: GROUPS[by], cell: (row) => (row === totals ? "Total" : NAMES[by](row)) },
      { label: "Calls", right: true, cell: (row) => count(row.requests) },
      { label: "Charged", money: (row) => row.charged },
      { label: "With known cost", money: (row) => row.charged_with_cost },
      { label: "Provider’s cost", money: (row) => row.provider_cost },
      { label: "Margin", money: (row) => row.margin, under: percent },
      hasReports && { label: "Reported", money: (row) => row.reported_cost, under: excess },
    ].filter(Boolean),
    rows,
    foot: totals,
  }),
];

/** The parts of a bar. Together they are what was charged, and the loss. */
const PARTS = [
  ["Provider’s cost, covered", ({ known, cost }) => (cost < known ? cost : known)],
  ["Margin", ({ known, cost }) => (cost < known ? known - cost : 0n)],
  ["Loss", ({ known, cost }) => (cost > known ? cost - known : 0n)],
  ["Charged, cost unknown", ({ charged, known }) => charged - known],
];

const say = (value) => amount(fromNano(BigInt(Math.round(value * 1e9))));

function costChart(view, { chart }, { makeSlots }) {
  const days = view.chart.points.map((point) => {
    const [charged, known, cost] = [point.charged, point.charged_with_cost ?? "0.00", point.provider_cost ?? "0.00"].map(toNano);
    return { day: point.day, parts: PARTS.map(([, read]) => read({ charged, known, cost })) };
  });
  const shown = PARTS.map(([name], at) => ({ name, at, sum: days.reduce((sum, { parts }) => sum + parts[at], 0n) })).filter(({ sum }) => sum);
  const { slots, find } = makeSlots(view, shown.length);
  for (const { day, parts } of days) {
    const slot = find(day);
    slot.sum += parts.reduce((sum, part) => sum + part, 0n);
    shown.forEach(({ at }, index) => { slot.values[index] += Number(parts[at]) / 1e9; });
  }
  for (const slot of slots) slot.text = `${slot.label}${slot.span}: ${amountText(fromNano(slot.sum))}`;
  return chart({
    title: `${roundText(view.totals.charged)} charged, ${view.totals.margin === null ? "no cost known" : `margin ${roundText(view.totals.margin)}`}`,
    unit: unit(),
    slots,
    series: shown.map(({ name, sum }) => ({ name, say, text: amount(fromNano(sum)) })),
    emptyText: shown.length ? "" : "No calls in this range",
  });
}
