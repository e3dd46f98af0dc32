// What operators do to an account: each in a dialog. Every move of money has a reason.

import { api } from "./api.js";
import { ask } from "./form.js";
import { amountText, time, unit } from "./format.js";
import { limitFields, noLimit, readLimits } from "./keytable.js";
import { tell } from "./ui.js";

const REASON = { name: "note", label: "Reason", required: true, maxlength: 500, hint: "The holder sees it under Billing." };

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
    ...limitFields(one, noLimit(session), true),
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

export const accountActs = {
  credit: askCredit, correct: askCorrect, limits: askLimits, role: askRole, signOut: askSignOut, suspend: askSuspend, resume: askResume,
};
