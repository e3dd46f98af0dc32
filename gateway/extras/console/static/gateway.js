// What an operator came for: the whole gateway. The own account is a card below, if it is used.

import { get } from "./api.js";
import { h } from "./dom.js";
import { amount, count, percentiles } from "./format.js";
import { balanceCard, firstSteps, showNotice } from "./overview.js";
import { code, dim, figures, link, liveHead, section, table } from "./ui.js";
import { usageChart } from "./usagechart.js";

export async function gateway({ session, signal }) {
  const [all, usage, own, providers, latency] = await Promise.all([
    get("/gateway", signal), get("/gateway/usage", signal), get("/overview", signal), get("/providers", signal), get("/latency", signal)]);
  const failing = providers.providers.filter((one) => one.on && (one.state === "failing" || one.hour.failures >= ALARMING));
  const slowest = latency.rows.filter(({ hour }) => hour.calls >= REPLIES)
    .sort((a, b) => b.hour.total_p95_ms - a.hour.total_p95_ms).slice(0, SLOWEST);
  return [
    liveHead("Overview", link("Accounts", "/console/accounts", "button"), link("Usage", "/console/usage", "button")),
    own.notices.filter((one) => !one.code.startsWith("balance")).map(showNotice),
    section("The gateway", figures([
      ["Balances owed", amount(all.owed), "what accounts still have"],
      !/^0\.0+$/.test(all.overdrawn) && ["Overdrawn", h("span", { class: "red" }, amount(all.overdrawn)), link("by whom", "/console/accounts?sort=lasts")],
    ].filter(Boolean)), periodTable(all)),
    failing.length > 0 && section("Providers that fail", providerTable(failing)),
    slowest.length > 0 && section("Slowest in the last hour", slowTable(slowest)),
    section("Last 30 days", usageChart(usage, "money")),
    section("Most spent in 30 days", topTable("Accounts", "account", all.accounts), topTable("Models", "model", all.models)),
    !all.models.length && !own.first_call && firstSteps(own),
    own.first_call && section("Your own account", balanceCard(own), h("p", null, link("Its calls", `/console/activity?account=${encodeURIComponent(session.account.name)}`))),
  ];
}

/** As many failures as make a provider fail, see `health.py`. */
const ALARMING = 3;

const PERIODS = { today: "Today (UTC)", "7d": "7 days", "30d": "30 days" };

const periodTable = (all) => table({
  caption: "The gateway by period",
  columns: [
    { label: "Period", cell: (row) => row.name },
    { label: "Calls", right: true, cell: (row) => [count(row.requests + row.failed), row.failed > 0 && h("small", null, `${count(row.failed)} not charged`)] },
    { label: "First byte p50 / p95", right: true, cell: ({ latency }) => percentiles(latency.first_byte_p50_ms, latency.first_byte_p95_ms) },
    { label: "Total p50 / p95", right: true, cell: ({ latency }) => percentiles(latency.total_p50_ms, latency.total_p95_ms) },
    { label: "Charged", money: (row) => row.charged },
    { label: "Credited", money: (row) => row.credited },
    { label: "Margin", money: (row) => row.margin, under: (row) => row.margin !== null && h("small", null, percent(row.margin_nano, row.charged_with_cost_nano)) },
  ],
  rows: Object.entries(PERIODS).map(([key, name]) => ({ name, ...all.periods[key] })),
});

const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "");

const topTable = (caption, kind, rows) => rows.length > 0 && table({
  caption,
  columns: [
    { label: caption, cell: (row) => link(row[kind], `/console/usage?${new URLSearchParams({ [kind]: row[kind] })}`) },
    { label: "Charged calls", right: true, cell: (row) => count(row.requests) },
    { label: "Charged", money: (row) => row.charged },
  ],
  rows,
});

const providerTable = (rows) => table({
  caption: "Providers that fail",
  columns: [
    { label: "Provider", cell: (one) => link(one.name, "/console/providers") },
    { label: "State", class: "wide", cell: (one) => one.state_text },
    { label: "Failed in the last hour", right: true, cell: (one) => [count(one.hour.failures), dim(" of ", count(one.hour.calls))] },
  ],
  rows,
});

/** As many as the tables of accounts and models have; fewer replies than that prove nothing. */
const SLOWEST = 5;
const REPLIES = 5;

const slowTable = (rows) => table({
  caption: "Slowest in the last hour",
  columns: [
    { label: "Provider, its model", cell: (one) => [link(one.provider, "/console/providers"), h("small", null, code(one.model))] },
    { label: "Replies", right: true, cell: ({ hour }) => count(hour.calls) },
    { label: "First byte p50 / p95", right: true, cell: ({ hour }) => percentiles(hour.first_byte_p50_ms, hour.first_byte_p95_ms) },
    { label: "Total p50 / p95", right: true, cell: ({ hour }) => percentiles(hour.total_p50_ms, hour.total_p95_ms) },
  ],
  rows,
});
