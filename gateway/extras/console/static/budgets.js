// Budgets: what keys may spend in each day, week or month; those that several keys share.

import { api } from "./api.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { amountText, count, groupAmount, time, unit } from "./format.js";
import { button, section, table } from "./ui.js";

const PERIODS = [["day", "each day"], ["week", "each week"], ["month", "each month"]];

/** What stands under the sum that a key's budget has spent; a shared one's is that of all its keys. */
export const budgetNotes = ({ budget }) => budget && [
  h("small", null, "of ", groupAmount(budget.amount), " a ", budget.period),
  budget.name && h("small", null, budget.name),
  h("small", null, "to ", time(budget.resets, { day: true })),
];

/** The fields of a key's budget: none, its own in some period, or a shared one. */
export function budgetFields(shared, key) {
  const own = key?.budget?.name === null ? key.budget : null;
  const options = [["", "none"], ...PERIODS.map(([period, words]) => [period, `its own, ${words}`]),
    ...shared.map((one) => [String(one.id), `${one.name}: ${amountText(one.amount)} a ${one.period}`])];
  return [
    { name: "budget_id", label: "Budget", type: "select", options, value: own ? own.period : String(key?.budget?.id ?? ""), hint: "The most it may spend in each period, which begins at 00:00 UTC, weeks on Monday." },
    { name: "budget_amount", label: `Its own budget, ${unit()}`, value: own?.amount, inputmode: "decimal", placeholder: "none", hint: "The amount for each period." },
  ];
}

/** What to send for these fields. */
export function budgetTerms({ budget_id: chosen, budget_amount: amount }) {
  if (!PERIODS.some(([period]) => period === chosen)) return { budget_id: chosen ? Number(chosen) : null };
  return { budget_amount: amount, budget_period: chosen };
}

/** The budgets that an account's keys can share; `path` is where new ones are made. */
export function budgetSection(budgets, path, context) {
  return section(["Budgets", button("Add a budget", () => askAdd(path, context))],
    h("p", { class: "hint aside" }, "What several keys may spend together in each day, week or month. A key gets one when it is made or edited."),
    budgets.length > 0 && budgetTable(budgets, context));
}

function budgetTable(budgets, context) {
  const label = (verb, one) => ({ "aria-label": `${verb} the budget ${one.name}` });
  return table({
    caption: "Budgets",
    columns: [
      { label: "Name", class: "wide", cell: (one) => h("span", { class: "name" }, one.name) },
      { label: "Amount", exact: true, money: (one) => one.amount, under: (one) => h("small", null, "a ", one.period) },
      { label: "Spent", keep: true, money: (one) => one.spent },
      { label: "Remaining", keep: true, cents: true, money: (one) => one.remaining },
      { label: "Resets (UTC)", cell: (one) => time(one.resets, { day: true }) },
      { label: "Keys", right: true, cell: (one) => count(one.keys) },
      { label: "Actions", class: "acts", cell: (one) => h("div", { class: "rowactions" },
        button("Edit", () => askEdit(one, context), "quiet", label("Edit", one)),
        button("Remove", () => askRemove(one, context), "quiet red", label("Remove", one))) },
    ],
    rows: budgets,
  });
}

const termFields = (one) => [
  { name: "name", label: "Name", value: one?.name, required: true, maxlength: 100, hint: "Whose it is: “CI”, “research”." },
  { name: "amount", label: `Amount, ${unit()}`, value: one?.amount, required: true, inputmode: "decimal" },
  { name: "period", label: "Period", type: "select", options: PERIODS, value: one?.period ?? "month", hint: "It begins at 00:00 UTC, a week on Monday." },
];

const askAdd = (path, { reload }) => ask({
  title: "Add a budget",
  fields: termFields(),
  submit: "Add budget",
  run: async (body, idempotencyKey) => {
    await api("POST", path, { body, idempotencyKey });
    return reload;
  },
});

const askEdit = (one, { reload }) => ask({
  title: `Edit the budget ${one.name}`,
  intro: "In force from the next call on. What was spent in the present period stays spent.",
  fields: termFields(one),
  submit: "Save",
  run: async (body) => {
    await api("PATCH", `/budgets/${one.id}`, { body });
    return reload;
  },
});

const askRemove = (one, { reload }) => ask({
  title: `Remove the budget ${one.name}?`,
  intro: "That is possible once no working key spends from it.",
  submit: "Remove budget",
  danger: true,
  run: async () => {
    await api("DELETE", `/budgets/${one.id}`);
    return reload;
  },
});
