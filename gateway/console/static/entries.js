// The table of movements of a balance.

import { h } from "./dom.js";
import { time } from "./format.js";
import { badge, dim, empty, link, table } from "./ui.js";

/** `linked`: whether the calls are the viewer's own, to be looked up under Activity. */
export function entryTable(entries, { linked } = {}) {
  if (!entries.length) return empty("No movements yet. Credit, redeemed codes and charges appear here, each with the balance after it.");
  return table({
    caption: "Movements of the balance",
    columns: [
      { label: "Time (UTC)", cell: (entry) => time(entry.created) },
      { label: "Kind", cell: (entry) => (entry.kind === "charge" ? entry.kind : badge(entry.kind, "good")) },
      { label: "Amount", money: (entry) => entry.amount },
      { label: "Balance after", money: (entry) => entry.balance_after },
      { label: "For", class: "wide", cell: (entry) => reason(entry, linked) },
    ],
    rows: entries,
  });
}

const reason = (entry, linked) => [
  entry.note && h("span", { class: "words" }, entry.note), entry.note && entry.request_id && " ",
  entry.request_id && (linked ? link(entry.request_id, `/console/activity?request_id=${encodeURIComponent(entry.request_id)}`, "mono")
    : h("span", { class: "mono" }, entry.request_id)),
  !entry.note && !entry.request_id && dim("–"),
];
