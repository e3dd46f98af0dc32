// What one came for first: the balance and how long it lasts.

import { get } from "./api.js";
import { callTable } from "./calls.js";
import { chart } from "./chart.js";
import { h } from "./dom.js";
import { amount, amountText, balance, bigAmount, count, plural, readSetting, roundText, shortDay, unit } from "./format.js";
import { callLink } from "./links.js";
import { tile, tiles } from "./tiles.js";
import { code, empty, link, liveHead, notice, section, table, tokenColumns } from "./ui.js";

const NOTICE_LINKS = {
  balance_empty: ["Top up", "/console/billing"],
  balance_low: ["Top up", "/console/billing"],
  key_expiring: ["See keys", "/console/keys"],
  no_password: ["Set a password", "/console/settings"],
};

export async function overview({ signal }) {
  const view = await get("/overview", signal);
  return [
    liveHead("Overview", link("Top up", "/console/billing", "button"), link("Create a key", "/console/keys?new=1", "button primary")),
    view.notices.map(showNotice),
    view.refused_today.length > 0 && refusedToday(view.refused_today),
    balanceCard(view),
    !view.first_call && firstSteps(view),
    h("section", { class: "card", "aria-label": "Last 30 days" }, dayChart(view), dayTable(view)),
    section("Latest calls",
      view.calls.length
        ? [callTable(view.calls, "Latest calls", { brief: true }), h("p", null, link("All activity", "/console/activity"))]
        : empty("No calls yet. They appear here a moment after they end.")),
  ];
}

function showNotice({ code, message }) {
  const kind = { balance_empty: "bad", suspended: "bad", no_password: "" }[code] ?? "warn";
  const to = NOTICE_LINKS[code];
  return notice(kind, message, to && [" ", link(...to)]);
}

/** Calls that never began, which Activity does not list. */
const refusedToday = (rows) => notice("warn", "Refused today (UTC): ", rows.map((one, index) =>
  [index > 0 && "; ", `${count(one.count)} × `, code(one.code), one.model && [" for ", code(one.model)],
    one.keys.length > 0 && [one.keys.length > 1 ? ", by keys " : ", by key ", one.keys.map((key, at) => [at > 0 && ", ", key.key_name || "unnamed", " ", code(key.key_display.slice(-5))])],
    " (", callLink(one.last_request_id, "the last"), ")"]), ".");

const sumCalls = (days) => days.reduce((sum, day) => sum + day.requests, 0);

export function balanceCard(view) {
  return h("section", { class: "card balance", "aria-label": "Balance" },
    h("div", null,
      h("p", { class: "label" }, "Balance"),
      h("p", null, bigAmount(view.balance)),
      h("p", { class: "dim" }, outlook(view))),
    tiles(
      tile({ label: "Spent in 7 days", value: amount(view.spent_7d), note: [amount(view.spent_today), " today (UTC)"], days: view.days.slice(-15), read: (day) => day.cost_nano }),
      tile({ label: "Charged calls in 7 days", value: count(sumCalls(view.days.slice(-7))), note: `${count(view.days.at(-1).requests)} today`, days: view.days.slice(-15), read: (day) => day.requests })),
    !/^0\.0+$/.test(view.held) && h("p", { class: "dim" }, balance(view.held), " of it is held by calls in flight."));
}

function outlook({ days_left: left, balance, spent_7d: spent }) {
  if (balance.startsWith("-") || /^0\.0+$/.test(balance)) return "Calls are refused until there is credit.";
  if (left === null) return /^0\.0+$/.test(spent) ? "Nothing spent in the last 7 days." : "";
  return left > 3650 ? "Enough for more than ten years at the last 7 days’ rate."
    : left ? `Lasts about ${plural(left, "day")} at the last 7 days’ rate.` : "Lasts less than a day at the last 7 days’ rate.";
}

export function firstSteps(view) {
  const copied = readSetting("copied-snippet") === "yes";
  const steps = [
    [view.first_key, "Create a key", "/console/keys?new=1", "It is shown once, ready to copy."],
    [view.first_key && copied, "Copy a snippet", "/console/keys", "For OpenAI’s SDK, Anthropic’s, or curl: it comes with the key."],
    [view.first_call, "Make the first call", "/console/activity", "It shows up under Activity with its cost."],
  ];
  return section("First steps", h("ol", { class: "steps" }, steps.map(([done, label, href, hint]) =>
    h("li", { class: done ? "done" : null }, link(label, href), done && h("span", { class: "unseen" }, " (done)"),
      h("span", { class: "dim" }, ` ${hint}`)))));
}

function dayChart(view) {
  const dearest = view.days.reduce((best, day) => (day.cost_nano > best.cost_nano ? day : best));
  const calls = sumCalls(view.days);
  return chart({
    title: calls ? `${roundText(view.spent_30d)} in 30 days${dearest.cost_nano ? `, most on ${shortDay(dearest.day)}` : ""}` : "No calls in the last 30 days",
    unit: unit(), height: 150,
    slots: view.days.map((day) => ({
      label: shortDay(day.day),
      values: [day.cost_nano / 1e9],
      text: `${shortDay(day.day)}: ${amountText(day.cost)}, ${plural(day.requests, "call")}`,
    })),
  });
}

const dayTable = (view) => h("details", null, h("summary", null, "As a table (UTC days)"), table({
  caption: "Spend by day",
  columns: [
    { label: "Day", cell: (row) => h("time", { datetime: row.day }, row.day) },
    { label: "Calls", right: true, cell: (row) => count(row.requests) },
    ...tokenColumns(view.days),
    { label: "Cost", money: (row) => row.cost },
  ],
  rows: [...view.days].reverse(),
}));
