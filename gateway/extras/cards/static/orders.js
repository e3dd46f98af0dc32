// Operators: payments by card of all accounts or of one, and where each of them stands.

import { get, query } from "./api.js";
import { filters } from "./form.js";
import { groupAmount, time } from "./format.js";
import { accountLink } from "./links.js";
import { badge, dim, empty, head, link, pager, table } from "./ui.js";

const KINDS = { made: "", paid: "good", failed: "bad", expired: "warn", refunded: "warn" };

export async function orders({ params, signal, reload }) {
  const chosen = { state: params.get("state"), account: params.get("account") };
  const list = await get(`/orders${query({ ...chosen, cursor: params.get("cursor") })}`, signal);
  return [
    head("Card payments", link("Billing", "/console/billing", "button")),
    filters([
      { name: "state", label: "State", type: "select", options: [["", "all"], ...Object.keys(KINDS).map((one) => [one, one])], value: chosen.state ?? "" },
      { name: "account", label: "Account", type: "search", value: chosen.account ?? "", placeholder: "all", spellcheck: "false" },
    ], reload),
    list.orders.length ? orderTable(list.orders) : empty(chosen.state || chosen.account ? "No payment matches." : "No payments by card yet. Holders make them under Billing."),
    pager(undefined, "payment", list.next_cursor),
  ];
}

const orderTable = (rows) => table({
  caption: "Payments by card",
  columns: [
    { label: "Made (UTC)", cell: (order) => time(order.created) },
    { label: "Account", cell: (order) => accountLink(order.account) },
    { label: "Amount", right: true, cell: (order) => price(order.amount, order.currency) },
    { label: "State", cell: (order) => badge(order.state, KINDS[order.state]) },
    { label: "Since (UTC)", cell: (order) => time(order.changed) },
    { label: "Taken back", right: true, cell: (order) => (order.taken_nano ? price(order.taken, order.currency) : dim("–")) },
    { label: "Fee", right: true, cell: (order) => (order.fee === null ? dim("–") : price(order.fee, order.fee_currency)) },
    { label: "See", class: "acts", cell: (order) => [entryLink(order), " ", providerLink(order)] },
  ],
  rows,
});

/** With its currency: an order keeps the one that it was made in, and fees have Stripe's. */
const price = (amount, currency) => `${groupAmount(amount)} ${currency}`;

/** To the days from the order to its last change: the credit came within them. */
const entryLink = ({ account, entry_id: id, created, changed }) =>
  id !== null && link("Entry", `/console/billing${query({ account, kind: "card", from: created.slice(0, 10), to: changed.slice(0, 10) })}`);

const providerLink = ({ payment_url: url }) => url !== null && link("Stripe", url, "", { target: "_blank", rel: "noopener noreferrer" });
