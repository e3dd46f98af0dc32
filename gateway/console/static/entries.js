// The table of movements of a balance.

import { h } from "./dom.js";
import { time } from "./format.js";
import { callLink } from "./links.js";
import { badge, dim, empty, table } from "./ui.js";

export function entryTable(entries) {
  if (!entries.length) return empty("No movements yet. Credit, redeemed codes and charges appear here, each with the balance after it.");
  return table({
    caption: "Movements of the balance",
    columns: [
      { label: "Time (UTC)", cell: (entry) => time(entry.created) },
      { label: "Kind", cell: (entry) => (entry.kind === "charge" ? entry.kind : badge(entry.kind, "good")) },
      { label: "Amount", money: (entry) => entry.amount },
      { label: "Balance after", money: (entry) => entry.balance_after },
      { label: "For", class: "wide", cell: (entry) => reason(entry) },
    ],
    rows: entries,
  });
}

const reason = (entry) => [
  entry.note && h("span", { class: "words" }, entry.note), entry.note && entry.request_id && " ",
  entry.request_id && callLink(entry.request_id),
  !entry.note && !entry.request_id && dim("–"),
];
