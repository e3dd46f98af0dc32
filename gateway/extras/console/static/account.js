// Operators: one account, and what is done to it. Every move of money has a reason.

import { api, get, query } from "./api.js";
import { budgetSection } from "./budgets.js";
import { h } from "./dom.js";
import { entryTable } from "./entries.js";
import { ask } from "./form.js";
import { amount, amountText, bigAmount, count, time, unit } from "./format.js";
import { askNew, rowActions } from "./keys.js";
import { LIMITS, keyTable, limitFields, readLimits } from "./keytable.js";
import { accountBadges } from "./links.js";
import { button, dim, empty, figures, link, liveHead, notice, pager, section, tell } from "./ui.js";

const REASON = { name: "note", label: "Reason", required: true, maxlength: 500, hint: "The holder sees it under Billing." };

export async function account(context) {
  const { name, params, signal } = context;
  const one = await get(`/accounts/by-name${query({ name })}`, signal);
  const budgetPath = `/accounts/${one.id}/budgets`;
  if (params.has("people")) return (await context.load("people")).peopleOf(one, context);
  const [moves, { budgets }, use, { usageOf }] = await Promise.all([
    get(`/accounts/${one.id}/entries${query({ cursor: params.get("cursor") })}`, signal), get(budgetPath, signal),
    get(`/gateway/usage${query({ account: name, by: "model" })}`, signal), context.load("usage")]);
  const here = { ...context, budgets, owner: one };
  return [
    h("p", null, link("Accounts", "/console/accounts")),
    liveHead(one.name, accountActions(one, context)),
    one.suspended && notice("bad", "Suspended: calls with this account’s keys are refused."),
    h("section", { class: "card balance", "aria-label": "Balance" },
      h("div", null, h("p", { class: "label" }, "Balance"), h("p", null, bigAmount(one.balance)), h("p", { class: "badges" }, accountBadges(one))),
      figures([["Held", amount(one.held)], ["Spent today", amount(one.spent_today), "UTC day"], ["Last 7 days", amount(one.spent_7d)],
        ["Last 30 days", amount(one.spent_30d)], ["Last call", time(one.last_used, { none: "never" }), link("All calls", `/console/activity${query({ account: one.name })}`)],
        ["Open sessions", count(one.sessions), link("People", `?people=1`)], ["Created", time(one.created, { day: true })]])),
    usageOf(use, name),
    section("Limits", h("p", { class: "hint" }, "For all keys together. Holders can narrow their keys, never widen this."), limitFigures(one, context.session)),
    section("Keys", one.key_list.length ? keyTable(one.key_list, (key) => rowActions(key, here)) : empty("No keys yet. The holder makes them, or you."),
      h("div", { class: "actions" }, button("Create a key", () => askNew(here)))),
    budgetSection(budgets, budgetPath, context),
    section("Movements", entryTable(moves.entries), pager(moves.count, "movement", moves.next_cursor)),
  ];
}

/** What holds where an account has no limit of its own. */
const none = ({ account_in_flight: most }) => (name) => (name === "concurrency" && most ? `${count(most)}, as for every account` : "no limit");

const limitFigures = (one, session) => figures([
  ...LIMITS.map(({ name, label }) => [label, one[name] === null ? dim(none(session)(name)) : one[name] === 0 ? "no limit" : count(one[name])]),
  ["Models", one.models ? one.models.join(", ") : dim("all")],
]);

function accountActions(one, context) {
  return [
    button("Credit", () => askCredit(one, context), "primary"),
    button("Correct", () => askCorrect(one, context)),
    button("Limits", () => askLimits(one, context)),
    button("Sign-in link", async () => (await context.load("people")).askLink(one.name, one, context)),
    ...(one.id === context.session.account.id ? [] : othersActions(one, context)),
  ];
}

/** What operators cannot do to themselves, so that one is always left. */
const othersActions = (one, context) => [
  one.sessions > 0 && button("Sign out", () => askSignOut(one, context)),
  one.operator ? button("Demote", () => askRole(one, context), "red") : button("Make operator", () => askRole(one, context)),
  one.suspended ? button("Resume", () => askResume(one, context)) : button("Suspend", () => askSuspend(one, context), "red"),
];

const move = (verb, one, { reload }) => async ({ request_id: request, ...values }, idempotencyKey) => {
  const body = request ? { ...values, request_id: request } : values;
  const { entry, replayed } = await api("POST", `/accounts/${one.id}/${verb}`, { body, idempotencyKey });
  return async () => {
    await reload();
    if (replayed) tell("warn", `${amountText(entry.amount)} was already posted on `, time(entry.created), " UTC by the first try; nothing was added by this one.");
  };
};

const askCredit = (one, context) => ask({
  title: `Credit ${one.name}`,
  intro: `The balance is ${amountText(one.balance)}.`,
  fields: [{ name: "amount", label: `Amount, ${unit()}`, required: true, inputmode: "decimal" }, REASON],
  submit: "Add credit",
  run: move("credit", one, context),
});

const askCorrect = (one, context) => ask({
  title: `Correct ${one.name}`,
  intro: `The balance is ${amountText(one.balance)}. A correction below 0 takes from it.`,
  fields: [
    { name: "amount", label: `Amount, ${unit()}`, required: true, placeholder: "-1.50" }, REASON,
    { name: "request_id", label: "Request id", class: "mono", spellcheck: "false", hint: "Of the call it corrects, if it is one. With 0: nothing is owed for it." },
  ],
  submit: "Post correction",
  run: move("correct", one, context),
});

const askLimits = (one, { session, reload }) => ask({
  title: `Limits of ${one.name}`,
  intro: "They count from the next call on, for all keys together.",
  fields: [
    ...limitFields(one, none(session), true),
    { name: "models", label: "Models", type: "checks", options: [...new Set([...session.models, ...(one.models ?? [])])],
      value: one.models ?? [], hint: "None chosen: all models, also those added later." },
  ],
  submit: "Set limits",
  run: async ({ models, ...limits }) => {
    await api("PATCH", `/accounts/${one.id}`, { body: { ...readLimits(limits), models: models.length ? models : null } });
    return reload;
  },
});

const askRole = (one, { reload }) => ask({
  title: one.operator ? `Demote ${one.name}?` : `Make ${one.name} an operator?`,
  intro: `${one.operator ? "It keeps its balance and keys, and manages other accounts no longer."
    : "It will see and manage all accounts, codes and the log."} It has to sign in again.`,
  submit: one.operator ? "Demote" : "Make operator",
  danger: one.operator,
  run: async () => {
    await api("PATCH", `/accounts/${one.id}`, { body: { operator: !one.operator } });
    return reload;
  },
});

const askSignOut = (one, { reload }) => ask({
  title: `Sign out ${one.name}?`,
  intro: "Ends all its sessions in the console, and an unused sign-in link. Password and keys stay.",
  submit: "Sign out",
  run: async () => {
    await api("POST", `/accounts/${one.id}/end-sessions`);
    return reload;
  },
});

const askSuspend = (one, { reload }) => ask({
  title: `Suspend ${one.name}?`,
  intro: "Calls with any of its keys are refused until you resume it. Calls under way end normally; balance and keys stay.",
  fields: [{ name: "reason", label: "Reason", maxlength: 500, hint: "For the audit log." }],
  submit: "Suspend",
  danger: true,
  run: async ({ reason }) => {
    await api("POST", `/accounts/${one.id}/suspend`, { body: reason ? { reason } : {} });
    return reload;
  },
});

const askResume = (one, { reload }) => ask({
  title: `Resume ${one.name}?`,
  intro: "Its keys work again from the next call on.",
  submit: "Resume",
  run: async () => {
    await api("POST", `/accounts/${one.id}/resume`);
    return reload;
  },
});
