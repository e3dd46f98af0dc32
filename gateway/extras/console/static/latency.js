// Operators: how long complete replies took, lately and on a day.

import { h } from "./dom.js";
import { percentiles, plural } from "./format.js";
import { accountLink } from "./links.js";
import { code, empty, foldedSection, table } from "./ui.js";

/** A section of what /latency replied; `filter` chooses the day. */
export const latencySection = (view, filter) => foldedSection("How long replies took",
  h("p", { class: "dim" }, "p50 / p95: within how long half, and 95 %, of complete replies had their first byte and their end, computed from counts in steps of √2: so they are near. Last hour: this hour of the clock and the one before."),
  filter,
  view.rows.length ? latencyTable(view) : empty("No complete replies in the last hour, nor on the day."));

const spans = (view) => [["hour", "Last hour", 0], ["day", view.day, 2]].flatMap(([span, title, alike]) => [
  { label: `${title}: first byte`, right: true, alike, cell: ({ [span]: one }) => [percentiles(one.first_byte_p50_ms, one.first_byte_p95_ms), h("small", null, plural(one.calls, "call"))] },
  { label: `${title}: total`, right: true, figure: !alike, alike, cell: ({ [span]: one }) => percentiles(one.total_p50_ms, one.total_p95_ms) },
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
