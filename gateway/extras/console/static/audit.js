// Operators: the proof of the ledger, and who did what.

import { api, get, query } from "./api.js";
import { announce, h } from "./dom.js";
import { filters, form } from "./form.js";
import { count, plural, time } from "./format.js";
import { accountLink, callLink } from "./links.js";
import { code, dim, empty, figures, head, notice, pager, section, table } from "./ui.js";

export async function audit({ params, signal, reload }) {
  const chosen = Object.fromEntries(["search", "actor", "kind", "from", "to"].map((name) => [name, params.get(name)]));
  const [report, log] = await Promise.all([
    get("/audit", signal), get(`/audit/log${query({ ...chosen, cursor: params.get("cursor") })}`, signal),
  ]);
  return [
    head("Audit"),
    section("Full audit", h("p", { class: "dim" }, "It proves every entry and balance from the beginning. The start-up check proves only what was new since the last proof."), showReport(report), form({
      submit: "Run the full audit",
      run: async () => {
        const { ok } = await api("POST", "/audit");
        await reload();
        announce(ok ? "Full audit: all agrees" : "Full audit: mismatch");
      },
    })),
    section("Who did what",
      filters([
        { name: "search", label: "Actor, account, action or target contains", type: "search", value: chosen.search },
        { name: "actor", label: "Who", type: "search", value: chosen.actor },
        { name: "kind", label: "What", type: "select", value: chosen.kind ?? "", options: [["", "anything"], ...log.kinds.map((one) => [one, one])] },
        { name: "from", label: "From (UTC)", type: "date", value: chosen.from },
        { name: "to", label: "To", type: "date", value: chosen.to },
      ], reload),
      log.events.length ? logTable(log.events) : empty(Object.values(chosen).some(Boolean) ? "Nothing matches." : "Nothing yet."),
      pager(log.count, "event", log.next_cursor)),
  ];
}

function showReport(report) {
  if (report.ok === null) return h("p", null, "Not run since the gateway started.");
  return [
    report.ok ? notice("good", "Balances and entries agree, checked ", time(report.at), " UTC.")
      : notice("bad", h("p", null, "Balances and entries disagree, found ", time(report.at), " UTC:"), h("ul", null, report.problems.map((one) => h("li", null, one)))),
    report.accounts !== null && figures([
      ["Accounts", count(report.accounts)], ["Entries", count(report.entries)], ["In flight", count(report.pending)],
      ["Interrupted", count(report.interrupted), report.unsettled ? `${count(report.unsettled)} to settle` : "all settled"],
    ]),
    report.to_settle.length > 0 && [h("p", null, `${plural(report.to_settle.length, "request")} interrupted by a crash and charged nothing. Settle each by a correction that names it.`), settleTable(report.to_settle)],
  ];
}

const settleTable = (rows) => table({
  caption: "To settle",
  columns: [
    { label: "Request id", cell: (one) => callLink(one.id) },
    { label: "Account", cell: (one) => accountLink(one.account) },
    { label: "Model", cell: (one) => code(one.model) },
    { label: "Provider", cell: (one) => one.provider },
    { label: "Held", cents: true, money: (one) => one.hold },
    { label: "Started (UTC)", cell: (one) => time(one.started) },
  ],
  rows,
});

const target = (text) => {
  if (!text) return dim("–");
  return /^req_[0-9a-f]{28}$/.test(text) ? callLink(text) : h("span", { class: "mono" }, text);
};

const logTable = (rows) => table({
  caption: "Audit log",
  columns: [
    { label: "Time (UTC)", cell: (one) => time(one.at) },
    { label: "Who, from", cell: (one) => [h("span", { class: "name" }, one.actor), one.address && h("small", null, one.address)] },
    { label: "What", cell: (one) => code(one.action) },
    { label: "Account", cell: (one) => (one.account ? accountLink(one.account) : dim("–")) },
    { label: "Target", cell: (one) => target(one.target) },
    { label: "Detail", class: "wide", cell: (one) => one.detail || dim("–") },
  ],
  rows,
});
