// Operators: the list of all accounts.

import { api, get, query } from "./api.js";
import { h } from "./dom.js";
import { ask, filters } from "./form.js";
import { count, plural, time, unit } from "./format.js";
import { keyTable } from "./keytable.js";
import { accountBadges, accountLink } from "./links.js";
import { button, dim, empty, head, link, liveHead, pager, table } from "./ui.js";

const SORTS = [
  ["name", "name"], ["balance", "balance"], ["held", "held"],
  ["spent_today", "spent today (UTC)"], ["spent_7d", "spent in 7 days"], ["spent_30d", "spent in 30 days"],
  ["least", "least balance"], ["lasts", "days it lasts"],
];

export async function accounts(context) {
  const { params, signal, go, reload } = context;
  if (params.has("keys")) return allKeys(context);
  const search = params.get("search");
  const sort = params.get("sort");
  const list = await get(`/accounts${query({ search, sort, cursor: params.get("cursor") })}`, signal);
  return [
    liveHead("Accounts", link("All keys", "/console/accounts?keys=all", "button"), button("Add an account", () => askAdd(go), "primary")),
    filters([
      { name: "search", label: "Name contains", type: "search", value: search },
      { name: "sort", label: "Sort by", type: "select", value: sort ?? "name", options: SORTS },
    ], reload),
    list.accounts.length ? accountTable(list, sort) : empty("No account has that in its name.", link("All accounts", "/console/accounts")),
    pager(list.count, "account", list.next_cursor),
  ];
}

const UNUSED = [["", "any key"], ["30", "unused for 30 days"], ["90", "unused for 90 days"]];

/** The keys of all accounts, the longest unused first. */
async function allKeys({ params, signal, reload }) {
  const days = params.get("unused_days");
  const list = await get(`/accounts/keys${query({ unused_days: days, cursor: params.get("cursor") })}`, signal);
  return [
    head("Keys of all accounts", link("Accounts", "/console/accounts", "button")),
    filters([
      { name: "unused_days", label: "Show", type: "select", value: days ?? "", options: UNUSED },
    ], reload),
    list.keys.length ? keyTable(list.keys, (key) => accountLink(key.account), "Account") : empty(days ? "No key was unused for that long." : "No account has a key yet. Holders make them under Keys, or you on the page of an account."),
    pager(list.count, "key", list.next_cursor),
  ];
}

const total = "All accounts";

/** A weekend and a day, in which nobody may look. */
const SOON_DAYS = 3;

const lasts = ({ days_left: left }) => (left === null ? dim("–") : left > 999 ? "over 999 days"
  : left > SOON_DAYS ? plural(left, "day") : h("span", { class: left ? "yellow" : "red" }, plural(left, "day")));

const accountTable = ({ accounts: rows, totals }, sort) => table({
  caption: "Accounts",
  columns: [
    { label: "Name", class: "wide", cell: (one) => (one === totals ? total : h("div", { class: "badges" }, accountLink(one.name), accountBadges(one))) },
    { label: "Balance", cents: true, money: (one) => one.balance },
    { label: "Held", keep: sort === "held", cents: true, money: (one) => one.held },
    { label: "Today", keep: sort === "spent_today", money: (one) => one.spent_today },
    { label: "7 days", keep: sort === "spent_7d", money: (one) => one.spent_7d },
    { label: "30 days", keep: sort === "spent_30d", money: (one) => one.spent_30d },
    { label: "Lasts about", keep: sort === "lasts", right: true, cell: (one) => one !== totals && lasts(one) },
    { label: "Keys", right: true, cell: (one) => one !== totals && count(one.keys) },
    { label: "Last call (UTC)", cell: (one) => one !== totals && time(one.last_used, { brief: true, none: dim("never") }) },
  ],
  rows,
  foot: totals,
});

const askAdd = (go) => ask({
  title: "Add an account",
  fields: [
    { name: "name", label: "Name", required: true, maxlength: 100, hint: "They sign in with it." },
    { name: "credit", label: `First credit, ${unit()}`, inputmode: "decimal", placeholder: "none" },
    { name: "note", label: "Reason of the credit", maxlength: 500, hint: "Needed with a credit; the holder sees it." },
    { name: "operator", label: "Operator: sees and manages all accounts", type: "checkbox" },
  ],
  submit: "Add account",
  run: async (values, idempotencyKey) => {
    const body = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
    const made = await api("POST", "/accounts", { body, idempotencyKey });
    return () => go(accountLink(made.name).getAttribute("href"));
  },
});
