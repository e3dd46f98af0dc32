// Operators: one account.

import { get, query } from "./api.js";
import { budgetSection } from "./budgets.js";
import { h } from "./dom.js";
import { amount, balance, bigAmount, count, time } from "./format.js";
import { askNew, rowActions } from "./keys.js";
import { LIMITS, keyTable, noLimit } from "./keytable.js";
import { accountBadges } from "./links.js";
import { badge, button, dim, empty, figures, foldedSection, link, liveHead, notice, pager, section } from "./ui.js";

export async function account(context) {
  const { name, params, signal } = context;
  const one = await get(`/accounts/by-name${query({ name })}`, signal);
  const budgetPath = `/accounts/${one.id}/budgets`;
  if (params.has("people")) return (await context.load("people")).peopleOf(one, context);
  const [moves, { budgets }, use, { usageOf }, { entryTable }] = await Promise.all([
    get(`/accounts/${one.id}/entries${query({ cursor: params.get("cursor") })}`, signal), get(budgetPath, signal),
    get(`/gateway/usage${query({ account: name, by: "model" })}`, signal), context.load("usage"), context.load("entries")]);
  const here = { ...context, budgets, owner: one };
  return [
    h("p", null, link("Accounts", "/console/accounts")),
    liveHead(one.name, accountActions(one, context)),
    one.suspended && notice("bad", "Suspended: calls with this account’s keys are refused."),
    h("section", { class: "card balance", "aria-label": "Balance" },
      h("div", null, h("p", { class: "label" }, "Balance"), h("p", null, bigAmount(one.balance)), h("p", { class: "badges" }, accountBadges(one), !one.has_password && badge("no password"), dim("since ", time(one.created, { day: true })))),
      figures([["Held", balance(one.held)], ["Spent today", amount(one.spent_today), "UTC day"], ["Last 7 days", amount(one.spent_7d)],
        ["Last 30 days", amount(one.spent_30d), link("Usage", `/console/usage${query({ account: one.name })}`)], ["Last call", time(one.last_used, { brief: true, none: "never" }), link("All calls", `/console/activity${query({ account: one.name })}`)],
        ["Open sessions", count(one.sessions), link("People", `?people=1`)]])),
    usageOf(use, name, context.go),
    foldedSection("Limits", h("p", { class: "hint" }, "For all keys together; a key can only have less."), limitFigures(one, context.session)),
    section(["Keys", button("Create a key", () => askNew(here))], one.key_list.length ? keyTable(one.key_list, (key) => rowActions(key, here)) : empty("No keys yet. The holder makes them, or you.")),
    budgetSection(budgets, budgetPath, context),
    section(["Movements", link("By month", `/console/billing${query({ account: one.name })}`)], entryTable(moves.entries), pager(moves.count, "movement", moves.next_cursor)),
  ];
}

/** The limits that are set. */
function limitFigures(one, session) {
  const own = LIMITS.filter(({ name }) => one[name] !== null).map(({ name, label }) => [label, one[name] === 0 ? "no limit" : count(one[name])]);
  if (one.models) own.push(["Models", one.models.join(", ")]);
  const others = one.concurrency === null && session.account_in_flight ? `Requests at once: ${noLimit(session)("concurrency")}.` : own.length === 0 && "No limit.";
  return [own.length > 0 && figures(own), others && h("p", null, others)];
}

/** Buttons by what each does; the dialogs are loaded when one is pressed. */
function accountActions(one, context) {
  const act = (label, name, kind) => button(label, async () => (await context.load("accountacts")).accountActs[name](one, context), kind);
  const own = one.id === context.session.account.id;
  return [
    act("Credit", "credit", "primary"),
    act("Correct", "correct"),
    act("Limits", "limits"),
    button("Sign-in link", async () => (await context.load("people")).askLink(one.name, one, context)),
    // Operators cannot do these to themselves, so that one is always left.
    !own && one.sessions > 0 && act("Sign out", "signOut"),
    !own && (one.operator ? act("Demote", "role", "red") : act("Make operator", "role")),
    !own && (one.suspended ? act("Resume", "resume") : act("Suspend", "suspend", "red")),
  ];
}
