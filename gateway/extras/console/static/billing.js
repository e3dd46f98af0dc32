// Every movement of the balance, and how to add to it.

import { api, apiUrl, get, query } from "./api.js";
import { follow, payCard } from "./cards.js";
import { h } from "./dom.js";
import { entryTable } from "./entries.js";
import { amount, amountText, bigAmount } from "./format.js";
import { filters, form } from "./form.js";
import { latestMonths, rangeFields, rangeLinks } from "./period.js";
import { empty, figures, head, link, pager, section, tell, unsay } from "./ui.js";

export const KINDS = [["", "all"], ["credit", "credit"], ["code", "code"], ["card", "card"], ["charge", "charge"], ["correction", "correction"]];

export async function billing(context) {
  const { params, signal } = context;
  const chosen = Object.fromEntries(["kind", "from", "to"].map((name) => [name, params.get(name)]));
  const view = await get(`/billing${query({ ...chosen, cursor: params.get("cursor") })}`, signal);
  return [
    head("Billing", link("CSV", apiUrl(`/billing.csv${query(chosen)}`), "button", { download: "" })),
    ownBalance(view, context),
    section("Movements",
      rangeLinks(chosen, latestMonths()),
      filters([
        ...rangeFields(chosen).map((field) => ({ ...field, required: false })),
        { name: "kind", label: "Kind", type: "select", options: KINDS, value: chosen.kind ?? "" },
      ], context.reload),
      view.entries.length || view.count !== null ? entryTable(view.entries) : empty("No movements in this time."),
      pager(view.count ?? undefined, "movement", view.next_cursor)),
  ];
}

export function ownBalance(view, context) {
  const order = context.params.get("order");
  // Behind this page, which it writes on.
  if (view.cards && order) setTimeout(() => follow(order, context));
  return [
    h("div", { class: "pair" },
      h("section", { class: "card balance", "aria-label": "Balance" },
        h("div", null, h("p", { class: "label" }, "Balance"), h("p", null, bigAmount(view.balance))),
        figures([["Held by calls in flight", amount(view.held)], ["Available", amount(view.available)]])),
      redeemCard(context)),
    view.cards && payCard(view.cards),
  ];
}

function redeemCard({ session, reload }) {
  return section("Add credit",
    session.top_up_text && h("p", { class: "words" }, session.top_up_text),
    form({
      inline: true,
      fields: [{ name: "code", label: "Top-up code", required: true, class: "mono", placeholder: "XXXX-XXXX-XXXX-XXXX", autocapitalize: "characters", spellcheck: "false" }],
      submit: "Redeem",
      run: async (body, idempotencyKey) => {
        unsay();
        const { entry } = await api("POST", "/billing/redeem", { body, idempotencyKey });
        await reload();
        tell("good", `${amountText(entry.amount)} added.`);
      },
    }));
}
