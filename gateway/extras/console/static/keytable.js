// The table of keys, for holders and operators; revoking, which both may.

import { api } from "./api.js";
import { budgetNotes } from "./budgets.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { count, groupAmount, time } from "./format.js";
import { badge, code, dim, table } from "./ui.js";

const IDLE_DAYS = 90;
const SOON_DAYS = 7;

export const isDead = (key) => key.status === "revoked" || key.status === "expired";

/** `act(key)` makes what stands in the last column, by default what can be done to a key. */
export function keyTable(rows, act, label = "Actions") {
  return table({
    caption: "Keys",
    columns: [
      { label: "Name", class: "wide", cell: (key) => h("div", { class: "badges" }, h("span", { class: "name" }, key.name || dim("unnamed")), badges(key)) },
      { label: "Key", cell: (key) => [code(key.display), h("small", null, "since ", time(key.created, { day: true })),
        key.expires && h("small", null, "expires ", time(key.expires, { day: true }))] },
      { label: "Last used (UTC)", cell: (key) => time(key.last_used, { brief: true, none: dim("never") }) },
      { label: "30 days", money: (key) => key.spent_30d },
      { label: "Spent", keep: true, figure: true, money: (key) => key.spent, under: (key) => key.cap !== null && h("small", null, "of ", groupAmount(key.cap)) },
      // Few have one, and the table is wide enough without.
      rows.some((key) => key.budget) && { label: "Budget", money: (key) => key.budget?.spent ?? null, under: budgetNotes },
      { label, class: "acts", cell: (key) => h("div", { class: "rowactions" }, act(key)) },
    ].filter(Boolean),
    rows,
  });
}

/** The limits that keys and accounts have, and what each is called where it is shown short. */
export const LIMITS = [
  { name: "requests_per_minute", label: "Requests per minute", short: "requests/min" },
  { name: "tokens_per_minute", label: "Tokens per minute", short: "tokens/min" },
  { name: "concurrency", label: "Requests at once", short: "at once" },
];

const ownLimits = (key) => LIMITS.filter(({ name }) => key[name] !== null)
  .map(({ name, short }) => badge(`${key[name] === 0 ? "unlimited" : count(key[name])} ${short}`));

/** What holds where an account has no limit of its own. */
export const noLimit = ({ account_in_flight: most }) => (name) => (name === "concurrency" && most ? `${count(most)}, as for every account` : "no limit");

/** `none(name)` says what holds where a field is left empty; `free`: whether one may lift a limit. */
export const limitFields = (one, none, free) => LIMITS.map(({ name, label }) => ({
  name, label, third: true, value: one?.[name], inputmode: "numeric", pattern: "[0-9]*", placeholder: none(name), hint: `Empty: ${none(name)}.${free ? " 0: no limit." : ""}`,
}));

export const readLimits = (values) => Object.fromEntries(LIMITS.map(({ name }) => [name, (values[name] ?? "") === "" ? null : Number(values[name])]));

const ageDays = (iso) => (Date.now() - Date.parse(iso)) / 86400000;

function badges(key) {
  if (isDead(key)) return badge(key.status);
  return [
    key.replaced_by && badge("replaced", "warn"),
    key.status === "cap_spent" && badge("cap spent", "bad"),
    key.cap === null && key.budget === null && badge("no cap"),
    ...ownLimits(key),
    key.expires && !key.replaced_by && -ageDays(key.expires) <= SOON_DAYS && badge("expires soon", "warn"),
    ageDays(key.created) >= IDLE_DAYS && !key.last_used && badge("never used", "warn"),
    key.last_used && ageDays(key.last_used) >= IDLE_DAYS && badge(`idle ${IDLE_DAYS} days`, "warn"),
  ].filter(Boolean);
}

export const askRevoke = (key, after) => ask({
  title: `Revoke ${key.name || key.display}?`,
  intro: "Programs that use it are refused from the next call on. This cannot be undone.",
  submit: "Revoke key",
  danger: true,
  run: async () => {
    await api("POST", `/keys/${encodeURIComponent(key.id)}/revoke`);
    return after;
  },
});
