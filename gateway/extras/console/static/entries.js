// The table of movements of a balance, or of those of all accounts.

import { RECEIPTS } from "./added.js";
import { apiUrl } from "./api.js";
import { h } from "./dom.js";
import { time } from "./format.js";
import { accountLink, callLink } from "./links.js";
import { badge, dim, empty, link, table } from "./ui.js";

export function entryTable(entries, ofAll) {
  if (!entries.length) return empty("No movements yet. Credit, redeemed codes and charges appear here, each with the balance after it.");
  return table({
    caption: ofAll ? "Movements of all accounts" : "Movements of the balance",
    columns: [
      { label: "Time (UTC)", cell: (entry) => time(entry.created) },
      ofAll && { label: "Account", cell: (entry) => accountLink(entry.account) },
      { label: "Kind", cell: (entry) => (entry.kind === "charge" ? entry.kind : badge(entry.kind, "good")) },
      { label: "Amount", exact: (entry) => entry.kind !== "charge", money: (entry) => entry.amount },
      { label: "Balance after", cents: true, money: (entry) => entry.balance_after },
      { label: "For", class: "wide", cell: (entry) => reason(entry) },
    ].filter(Boolean),
    rows: entries,
  });
}

const reason = (entry) => [
  entry.note && h("span", { class: "words" }, entry.note), entry.note && entry.request_id && " ", RECEIPTS[entry.kind] && receipt(entry),
  entry.request_id && callLink(entry.request_id),
  !entry.note && !entry.request_id && dim("–"),
];

/** The receipt is at the payment provider; the note names the order. */
const receipt = ({ kind, note }) => [" ", link("Receipt", apiUrl(RECEIPTS[kind].replace("{}", note.split(" ").pop())), "", { target: "_blank", rel: "noopener" })];
