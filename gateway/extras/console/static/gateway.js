// What an operator came for: the whole gateway at a glance. The own account is a card below, if it is used.

import { PAGES } from "./added.js";
import { get } from "./api.js";
import { h } from "./dom.js";
import { amount, balance, count, debt, growth, percentiles } from "./format.js";
import { accountLink } from "./links.js";
import { tile, tiles } from "./tiles.js";
import { code, link, liveHead, section, table } from "./ui.js";

export async function gateway({ session, signal, go, load }) {
  const [all, usage, own, { usageChart, zoomTo }] = await Promise.all([
    get("/gateway", signal), get("/gateway/usage", signal), get("/overview", signal), load("usagechart")]);
  const { balanceCard, firstSteps } = own.first_call || !all.models.length ? await load("overview") : {};
  return [
    liveHead("Overview", link("Usage", "/console/usage", "button"), PAGES.includes("trends") && link("Trends", "/console/trends", "button")),
    summary(all),
    !all.models.length && !own.first_call && firstSteps(own),
    h("div", { class: "beside" },
      h("section", { class: "card", "aria-label": "Last 30 days" }, usageChart(usage, "money", SERIES, zoomTo(go, {}))),
      needSection(all.needs, own.notices)),
    h("div", { class: "pair" }, topTable("Account", "account", all.accounts), topTable("Model", "model", all.models)),
    h("details", { class: "card" }, h("summary", null, "Calls, times and money by period"), periodTable(all)),
    own.first_call && section("Your own account", balanceCard(own), h("p", null, link("Its calls", `/console/activity?account=${encodeURIComponent(session.account.name)}`))),
  ];
}

/** Models that have a colour of their own: the legend of more would push the rest of the page down. */
const SERIES = 5;

function summary({ days, periods: { "7d": week, today }, owed, overdrawn }) {
  const calls = week.requests + week.failed;
  const isOver = !/^0\.0+$/.test(overdrawn);
  return h("section", { class: "card", "aria-label": "Last 7 days" }, tiles(
    tile({ label: "Charged in 7 days", value: amount(week.charged), note: [amount(today.charged), " today"], days, read: (day) => day.charged_nano }),
    tile({ label: "Calls in 7 days", value: count(calls), note: `${count(today.requests + today.failed)} today`, days, read: (day) => day.requests + day.failed }),
    tile({ label: "Not charged in 7 days", value: count(week.failed), note: calls ? `${share(week.failed, calls)} of the calls` : "of no calls", days, read: (day) => day.failed }),
    tile({ label: "Balances owed", value: balance(owed), note: isOver ? [h("span", { class: "red" }, debt(overdrawn)), " overdrawn"] : "none is overdrawn", days, read: (day) => day.balances_nano, state: true })));
}

const share = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;

/** Where what needs doing is done, and what its link says. */
const PLACES = {
  audit_failed: ["See the report", "/console/audit"],
  ledger_unwritable: ["See Health", "/console/health"],
  reload_refused: ["See why", "/console/health"],
  reload_due: ["See Health", "/console/health"],
  restart_due: ["See Health", "/console/health"],
  provider_failing: ["See Providers", "/console/providers"],
  key_not_renewed: ["See Health", "/console/health"],
  overdrawn: ["See who", "/console/accounts?sort=lasts"],
  cost_unknown: ["See Costs", "/console/costs"],
  sold_below_cost: ["See Costs", "/console/costs"],
  switched_off: ["See Health", "/console/health"],
  backup_old: ["See Health", "/console/health"],
  key_expiring: ["See keys", "/console/keys"],
  no_password: ["Set a password", "/console/settings"],
};

function needSection(needs, notices) {
  // An operator's own balance is among the accounts.
  const all = [...needs, ...notices.filter((one) => !one.code.startsWith("balance"))];
  return section("What needs doing", all.length ? h("ul", { class: "needs" }, all.map(need)) : h("p", { class: "dim" }, "Nothing needs doing."));
}

const need = ({ code: kind, message, names = [] }) => h("li", null, message, " ",
  kind === "overdrawn" && [names.map((name, at) => [at > 0 && ", ", accountLink(name)]), ". "],
  ["cost_unknown", "switched_off"].includes(kind) && [names.map((name, at) => [at > 0 && ", ", code(name)]), ". "],
  PLACES[kind] && link(...PLACES[kind]));

const PERIODS = { today: "Today (UTC)", "7d": "7 days", "30d": "30 days" };

const periodTable = (all) => table({
  caption: "The gateway by period",
  columns: [
    { label: "Period", cell: (row) => row.name },
    { label: "Calls", right: true, cell: (row) => [count(row.requests + row.failed), row.failed > 0 && h("small", null, `${count(row.failed)} not charged`)] },
    { label: "First byte p50 / p95", right: true, cell: ({ latency }) => percentiles(latency.first_byte_p50_ms, latency.first_byte_p95_ms) },
    { label: "Total p50 / p95", right: true, cell: ({ latency }) => percentiles(latency.total_p50_ms, latency.total_p95_ms) },
    { label: "Charged", money: (row) => row.charged },
    { label: "Credited", exact: true, money: (row) => row.credited },
    { label: "Margin", money: (row) => row.margin, under: (row) => row.margin !== null && h("small", null, percent(row.margin_nano, row.charged_with_cost_nano)) },
  ],
  rows: Object.entries(PERIODS).map(([key, name]) => ({ name, ...all.periods[key] })),
});

const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "");

const topTable = (label, kind, rows) => rows.length > 0 && section(`${label}s, 30 days`, table({
  caption: `${label}s, 30 days`,
  columns: [
    { label, cell: (row) => link(row[kind], `/console/usage?${new URLSearchParams({ [kind]: row[kind] })}`) },
    { label: "Charged calls", right: true, cell: (row) => count(row.requests) },
    { label: "Charged", money: (row) => row.charged },
    kind === "account" && { label: "To 30 days before", right: true, cell: (row) => growth(row.charged_nano, row.charged_before_nano) },
  ].filter(Boolean),
  rows,
}));
