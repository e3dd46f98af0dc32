// Operators: how long complete replies took, lately and on a day.

import { h } from "./dom.js";
import { count, percentiles } from "./format.js";
import { accountLink } from "./links.js";
import { code, empty, section, table } from "./ui.js";

/** A section of what /latency replied. */
export const latencySection = (view) => section("How long replies took",
  h("p", { class: "dim" }, "Seconds within which half (p50) and 95 % (p95) of complete replies had their first byte and their end. Last hour: this hour of the clock and the one before."),
  view.rows.length ? latencyTable(view) : empty("No complete replies in the last hour, nor on the day."));

const spans = (view) => [["hour", "Last hour"], ["day", view.day]].flatMap(([span, title]) => [
  { label: `${title}: calls`, right: true, cell: (row) => count(row[span].calls) },
  { label: `${title}: first byte p50 / p95`, right: true, cell: (row) => percentiles(row[span].first_byte_p50_ms, row[span].first_byte_p95_ms) },
  { label: `${title}: total p50 / p95`, right: true, cell: (row) => percentiles(row[span].total_p50_ms, row[span].total_p95_ms) },
]);

const name = (row) => (row.account ? accountLink(row.account) : [h("span", { class: "name" }, row.provider), h("small", null, code(row.model))]);

const latencyTable = (view) => table({
  caption: "How long replies took",
  columns: [
    { label: view.rows[0].account ? "Account" : "Provider, its model", cell: (row) => (row === view.totals ? "All" : name(row)) },
    ...spans(view),
  ],
  rows: view.rows,
  foot: view.totals,
});
