// Operators: tokens of scripts. A token itself is shown when it is made, and never again.

import { api, get } from "./api.js";
import { copyField } from "./copy.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { plural, time, utcDay } from "./format.js";
import { badge, button, code, dim, empty, head, notice, section, table } from "./ui.js";

const ROLES = [
  ["accounts", "accounts: accounts, their keys, credits and codes"],
  ["read", "read: look at everything, change nothing"],
  ["operator", "operator: all but passwords, links, sessions, roles, tokens"],
];
const KINDS = { active: "good", expired: "warn", revoked: "warn" };

export async function tokens(context) {
  const list = await get("/tokens", context.signal);
  const add = button("Add a token", () => askAdd(context), "primary");
  if (!list.count) {
    return [head("Tokens"), empty("With a token a script uses the console’s API, as a shop does that adds accounts and credit. There are none yet.", add)];
  }
  return [head("Tokens", add), tokenTable(list.tokens, context), h("p", { class: "dim" }, plural(list.count, "token"))];
}

const tokenTable = (rows, context) => table({
  caption: "Tokens",
  columns: [
    { label: "Name", class: "wide", cell: (one) => h("span", { class: "name" }, one.name) },
    { label: "Token", cell: (one) => code(one.display) },
    { label: "Role", cell: (one) => one.role },
    { label: "State", cell: (one) => badge(one.status, KINDS[one.status]) },
    { label: "Made (UTC)", cell: (one) => [time(one.created, { brief: true }), h("small", null, "by ", one.created_by)] },
    { label: "Expires", cell: (one) => time(one.expires, { day: true, none: dim("never") }) },
    { label: "Last used (UTC)", cell: (one) => time(one.last_used, { brief: true, none: dim("never") }) },
    { label: "Actions", class: "acts", cell: (one) => h("div", { class: "rowactions" },
      one.status === "revoked" ? dim("–") : button("Revoke", () => askRevoke(one, context), "quiet red", { "aria-label": `Revoke ${one.name}` })) },
  ],
  rows,
});

const askAdd = (context) => ask({
  title: "Add a token",
  fields: [
    { name: "name", label: "Name", required: true, maxlength: 100, hint: "What uses it, such as shop. Events name it so." },
    { name: "role", label: "Role", type: "select", options: ROLES, value: "accounts" },
    { name: "expires", label: "Expires", type: "date", min: utcDay(1), hint: "At 00:00 UTC of that day. Empty: never." },
  ],
  submit: "Add token",
  run: async ({ name, role, expires }) => {
    const made = await api("POST", "/tokens", { body: { name, role, ...(expires && { expires }) } });
    return () => context.place(madeView(made, context));
  },
});

const madeView = ({ token, secret }, { reload }) => [
  head("Token added"),
  notice("warn", h("strong", null, "Shown once."), " Copy it now. Lost it? Revoke it and add another one."),
  section(token.name, copyField("Token", secret),
    h("p", { class: "dim" }, "A script sends it in the header Authorization, as a bearer token.")),
  h("div", { class: "actions" }, button("I stored it", reload, "primary")),
];

const askRevoke = (one, { reload }) => ask({
  title: `Revoke ${one.name}?`,
  intro: "Scripts with this token are refused at once. This cannot be undone.",
  submit: "Revoke token",
  danger: true,
  run: async () => {
    await api("POST", `/tokens/${encodeURIComponent(one.id)}/revoke`);
    return reload;
  },
});
