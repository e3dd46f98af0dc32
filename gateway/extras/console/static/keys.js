// Keys: what they may do, what they spent; a new one is shown once.

import { api, get, query } from "./api.js";
import { budgetFields, budgetSection, budgetTerms } from "./budgets.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { count, unit, utcDay } from "./format.js";
import { askRevoke, isDead, keyTable, limitFields, readLimits } from "./keytable.js";
import { button, dim, empty, head, link, pager } from "./ui.js";

const GRACE = [["0", "stops now"], ["3600", "works for 1 hour more"], ["86400", "for 24 hours"], ["604800", "for 7 days"]];

export async function keys(context) {
  const { params, signal } = context;
  const [status, sort] = ["status", "sort"].map((name) => params.get(name));
  const listed = (changes) => `/console/keys${query({ status, sort, ...changes })}`;
  const [list, { budgets }] = await Promise.all([
    get(`/keys${query({ status, sort, cursor: params.get("cursor") })}`, signal), get("/budgets", signal)]);
  const here = { ...context, budgets };
  const add = () => askNew(here);
  if (params.has("new")) {
    history.replaceState(null, "", "/console/keys");
    queueMicrotask(add);
  }
  if (!list.count && !status) {
    return [head("Keys"), empty("A key lets a program call models at your expense. You have none yet.", button("Create a key", add, "primary")), budgets.length > 0 && budgetSection(budgets, "/budgets", context)];
  }
  return [
    head("Keys", button("Create a key", add, "primary")),
    keyTable(list.keys, (key) => rowActions(key, here)),
    h("div", { class: "under" }, pager(list.count, "key", list.next_cursor),
      sort ? link("Newest first", listed({ sort: null })) : link("Most spent first", listed({ sort: "spent_30d" })),
      status ? link("Working keys only", listed({ status: null })) : link("With revoked and expired", listed({ status: "all" }))),
    budgetSection(budgets, "/budgets", context),
  ];
}

/** What can be done to a key; `context` has the `budgets` of its account and, where that is another's, its `owner`. */
export function rowActions(key, context) {
  if (isDead(key)) return dim("–");
  const about = (label) => ({ "aria-label": `${label} ${key.name || key.display}` });
  return [
    button("Edit", () => askEdit(key, context), "quiet", about("Edit")),
    !key.replaced_by && button("Rotate", () => askRotate(key, context), "quiet", about("Rotate")),
    button("Revoke", () => askRevoke(key, context.reload), "quiet red", about("Revoke")),
  ];
}

function keyFields({ session, budgets }, key) {
  const models = [...new Set([...session.models, ...(key?.models ?? [])])];
  return [
    { name: "name", label: "Name", value: key?.name, maxlength: 100, hint: "What uses it: “CI”, “notebook”." },
    { name: "cap", label: `Cap, ${unit()}`, value: key?.cap, inputmode: "decimal", placeholder: "none", hint: "It begins no call once it has spent this much. Empty: no cap." },
    ...budgetFields(budgets, key),
    { name: "expires", label: "Expires", type: "date", value: key?.expires?.slice(0, 10), min: utcDay(1), hint: "At 00:00 UTC of that day. Empty: never." },
    ...limitFields(key, (name) => (session.key_limits[name] ? count(session.key_limits[name]) : "no limit"), session.account.operator),
    { name: "models", label: "Models", type: "checks", options: models, value: key?.models ?? [], hint: "None chosen: all models, also those added later." },
  ];
}

const terms = (values) => ({
  name: values.name,
  cap: values.cap || null,
  expires: values.expires || null,
  models: values.models.length ? values.models : null,
  ...readLimits(values),
});

const valuesOf = (fields) => Object.fromEntries(fields.map(({ name, value = "" }) => [name, value]));

/** Make a key and show it. What shows it is loaded first, as a key that cannot be shown is lost. */
async function showNew(context, make) {
  const others = Object.values(context.session.kinds).some((kind) => kind !== "chat");
  const [{ created }, added, snippets] = await Promise.all(
    [context.load("newkey"), context.parts("newkey", context), others && context.load("snippets")]);
  const made = await make();
  return () => context.place(created(made, context, added, snippets));
}

export const askNew = (context) => ask({
  title: context.owner ? `Create a key for ${context.owner.name}` : "Create a key",
  fields: keyFields(context),
  submit: "Create key",
  run: async (values, idempotencyKey) => {
    const path = context.owner ? `/accounts/${context.owner.id}/keys` : "/keys";
    return showNew(context, () => api("POST", path, { body: { ...terms(values), ...budgetTerms(values) }, idempotencyKey }));
  },
});

function askEdit(key, context) {
  const fields = keyFields(context, key);
  // Past days are no new choice, but the key's own one stays sayable.
  delete fields.find((field) => field.name === "expires").min;
  ask({
    title: `Edit ${key.name || key.display}`,
    fields,
    submit: "Save",
    run: async (values) => {
      const before = terms({ ...key, cap: key.cap, expires: key.expires?.slice(0, 10), models: key.models ?? [] });
      const after = terms(values);
      // What was not touched is not sent: an expiry within a day keeps its hour.
      const changed = Object.entries(after).filter(([name, value]) => String(value) !== String(before[name]));
      const budget = budgetTerms(values);
      if (JSON.stringify(budget) !== JSON.stringify(budgetTerms(valuesOf(budgetFields([], key))))) changed.push(...Object.entries(budget));
      if (changed.length) await api("PATCH", `/keys/${encodeURIComponent(key.id)}`, { body: Object.fromEntries(changed) });
      return context.reload;
    },
  });
}

const askRotate = (key, context) => ask({
  title: `Rotate ${key.name || key.display}`,
  intro: "A new key takes over name, models, expiry, budget and the rest of the cap. Let the old one work for a while if it has not leaked, so that you can put the new one in place.",
  fields: [{ name: "grace", label: "The old key", type: "select", options: GRACE, value: "0" }],
  submit: "Rotate key",
  run: async ({ grace }) => {
    return showNew(context, () => api("POST", `/keys/${encodeURIComponent(key.id)}/rotate`, { body: { grace_seconds: Number(grace) } }));
  },
});
