// Operators: what providers bill for the models of all accounts, and the margin.

import { get, query } from "./api.js";
import { h } from "./dom.js";
import { count, groupAmount, utcDay } from "./format.js";
import { latestDays, rangeLinks } from "./period.js";
import { code, empty, head, section, table } from "./ui.js";

export async function costs({ params, signal }) {
  const view = await get(`/costs${query({ from: params.get("from") ?? utcDay(-29), to: params.get("to") ?? utcDay() })}`, signal);
  const { costed_requests: costed, reported_requests: reported } = view.totals;
  return [
    head("Costs"),
    rangeLinks(view, latestDays()),
    section("All accounts, by model",
      !costed && !reported && h("p", null, "No cost is known in this range. Set ", code("cost"), " beside a model's ", code("price"), " in gateway.toml."),
      view.rows.length ? costTable(view, reported > 0) : empty("No calls in this range. Choose a longer one.")),
  ];
}

const unknown = (rows) => rows.filter((row) => row.costed_requests < row.requests).map((row) => row.model);

/** Of what was charged where the cost is known. */
const percent = (row) => row.charged_with_cost_nano > 0 && h("small", null, `${(100 * row.margin_nano / row.charged_with_cost_nano).toFixed(1)} %`);

const excess = (row) => row.reported_excess_nano && h("small", null, "excess ", groupAmount(row.reported_excess));

const costTable = ({ rows, totals }, hasReports) => [
  h("p", { class: "dim" }, "Cost and margin are those of the calls with a known cost."),
  unknown(rows).length > 0 && h("p", { class: "words" }, "Calls without a known cost: ", unknown(rows).join(", "), "."),
  table({
    caption: "What providers bill, by model",
    columns: [
      { label: "Model", cell: (row) => (row === totals ? "Total" : code(row.model)) },
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
