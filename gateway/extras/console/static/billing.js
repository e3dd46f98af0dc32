// Every movement of the balance, and how to add to it.

import { CREDIT } from "./added.js";
import { apiUrl, get, query } from "./api.js";
import { h } from "./dom.js";
import { entryTable } from "./entries.js";
import { balance, bigAmount } from "./format.js";
import { filters } from "./form.js";
import { latestMonths, rangeFields, rangeLinks } from "./period.js";
import { empty, figures, head, link, pager, section } from "./ui.js";

export const KINDS = [["", "all"], ["credit", "credit"], ["code", "code"], ["card", "card"], ["charge", "charge"], ["correction", "correction"]];

export async function billing(context) {
  const { params, signal } = context;
  const chosen = Object.fromEntries(["kind", "from", "to"].map((name) => [name, params.get(name)]));
  const [view, forms] = await Promise.all([get(`/billing${query({ ...chosen, cursor: params.get("cursor") })}`, signal), creditForms(context)]);
  const more = await context.parts("billing", context, view);
  return [
    head("Billing", link("CSV", apiUrl(`/billing.csv${query(chosen)}`), "button", { download: "" })),
    ownBalance(view, forms, more, context.session),
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

/** Forms of extras, by which one adds credit. */
export const creditForms = (context) => Promise.all(CREDIT.map(async (name) => (await context.load(name)).creditForm(context)));

export function ownBalance(view, forms, more, { top_up_text: words }) {
  return [
    h("div", { class: "pair" },
      h("section", { class: "card balance", "aria-label": "Balance" },
        h("div", null, h("p", { class: "label" }, "Balance"), h("p", null, bigAmount(view.balance))),
        figures([["Held by calls in flight", balance(view.held)], ["Available", balance(view.available)]])),
      (words || forms.length > 0) && section("Add credit", words && h("p", { class: "words" }, words), forms)),
    more,
  ];
}

