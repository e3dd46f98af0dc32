// Operators: the statement of a time and the movements in it, of all accounts or of one.

import { apiUrl, get, query } from "./api.js";
import { KINDS, creditForms, ownBalance } from "./billing.js";
import { h } from "./dom.js";
import { entryTable } from "./entries.js";
import { filters } from "./form.js";
import { count } from "./format.js";
import { accountLink } from "./links.js";
import { latestMonths, rangeFields, rangeLinks } from "./period.js";
import { button, empty, head, link, pager, section, table } from "./ui.js";

const MAX_LINES = 200;

export async function books(context) {
  const { params, signal, reload } = context;
  const [, first, today] = latestMonths()[0];
  const range = { from: params.get("from") ?? first, to: params.get("to") ?? today, account: params.get("account") };
  const kind = params.get("kind");
  const [statement, list, own, forms] = await Promise.all([
    get(`/statement${query({ ...range, limit: MAX_LINES })}`, signal),
    get(`/entries${query({ ...range, kind, cursor: params.get("cursor") })}`, signal),
    get("/billing?limit=1", signal),
    creditForms(context),
  ]);
  const isWhole = !params.has("cursor") && !list.next_cursor;
  const links = await context.parts("books", context, { own, statement });
  const more = await context.parts("billing", context, own);
  return [
    head("Billing", links, button("Print", () => print()),
      link("Statement as CSV", apiUrl(`/statement.csv${query(range)}`), "button", { download: "" }),
      link("Movements as CSV", apiUrl(`/entries.csv${query({ ...range, kind })}`), "button", { download: "" })),
    rangeLinks(statement, latestMonths()),
    filters([
      ...rangeFields(statement),
      { name: "account", label: "Account", type: "search", value: range.account ?? "", placeholder: "all", spellcheck: "false" },
      { name: "kind", label: "Movements", type: "select", options: KINDS, value: kind ?? "" },
    ], reload),
    section(`Statement, ${statement.from} to ${statement.to} (UTC)`,
      statement.rows.length ? statementTable(statement) : empty("No account was there yet."),
      statement.next_cursor && h("p", { class: "words" }, `The first ${MAX_LINES} of ${count(statement.count)} accounts; the CSV has all of them.`)),
    h("div", { class: isWhole ? null : "screen" }, section("Movements",
      list.entries.length ? entryTable(list.entries, true) : empty("No movements in this time."),
      !isWhole && pager(undefined, "movement", list.next_cursor))),
    h("div", { class: "screen stack" }, h("h2", null, "Your own account"), ownBalance(own, forms, more, context.session)),
  ];
}

const statementTable = ({ rows, totals }) => table({
  caption: "Statement",
  columns: [
    { label: "Account", class: "wide", cell: (row) => (row === totals ? "All accounts" : accountLink(row.account)) },
    { label: "Opening", exact: true, keep: true, money: (row) => row.opening },
    { label: "Credit", exact: true, money: (row) => row.credit },
    { label: "Codes", exact: true, money: (row) => row.codes },
    { label: "Cards", exact: true, money: (row) => row.cards },
    { label: "Charges", exact: true, money: (row) => row.charges },
    { label: "Corrections", exact: true, money: (row) => row.corrections },
    { label: "Closing", exact: true, keep: true, figure: true, money: (row) => row.closing },
  ],
  rows,
  foot: totals,
});
