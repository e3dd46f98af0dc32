// Operators: how the gateway is.

import { DOWNLOADS } from "./added.js";
import { get } from "./api.js";
import { h } from "./dom.js";
import { balance, count, plural, time } from "./format.js";
import { callLink } from "./links.js";
import { byNeed, state } from "./observations.js";
import { badge, code, dim, empty, figures, link, liveHead, notice, section, table } from "./ui.js";

const AUDITS = { true: "balances and entries agree", false: "MISMATCH", null: "not run since the start" };

export async function health(context) {
  const { signal, reload } = context;
  const [view, more] = await Promise.all([get("/health", signal), context.parts("health", context)]);
  return [
    liveHead("Health", DOWNLOADS.includes("grafana.json") && link("Grafana dashboard", "/console/static/grafana.json", "button", { download: "" }), h("button", { type: "button", onclick: reload }, "Refresh")),
    view.full_audit.ok === false && notice("bad", "The full audit found that balances and entries disagree. ", link("See the report", "/console/audit")),
    !view.ledger_writable && notice("bad", "The ledger cannot be written: new requests are refused. ", view.node ? "Look at PostgreSQL." : "Look at the disk: space, permissions."),
    view.draining && notice("warn", "Draining: requests in flight end, new ones are refused."),
    view.reload && !view.reload.ok && notice("bad", "gateway.toml was refused at the last reload, so nothing changed: ", view.reload.words),
    view.reload && view.reload.restart_for.length > 0 && notice("warn", "A restart is needed for the new values of ", view.reload.restart_for.map((key, index) => [index > 0 && ", ", code(key)]), "."),
    section(view.node ? `Gateway: ${view.node}` : "Gateway", figures([
      ["Up for", duration(view.uptime_seconds), ["since ", time(view.started)]],
      ["In flight", count(view.in_flight), `of ${count(view.max_in_flight)}`],
      ["Loop lag", view.loop_lag_ms === null ? "–" : `${view.loop_lag_ms.toFixed(1)} ms`, "the longest in a minute"],
      ["Version", view.version, [view.commit && ["commit ", code(view.commit), ", "], `schema ${view.schema}`]],
      ["Configuration", view.reload ? (view.reload.ok ? "read again" : badge("refused", "bad")) : "as at the start", view.reload && time(view.reload.at)],
    ]), view.reload?.ok && h("p", { class: "dim" }, `Last reload: ${view.reload.words}.`)),
    section("Ledger", figures([
      ["Start-up check", "balances and entries agree", ["of what was new at ", time(view.startup_check.at)]],
      ["Full audit", AUDITS[view.full_audit.ok], view.full_audit.at ? time(view.full_audit.at) : link("Run it", "/console/audit")],
      ["Open holds", count(view.open_holds), balance(view.held)],
      ["Database", size(view.database_bytes)],
      ...(view.node ? [] : [
        ["Write-ahead log", size(view.wal_bytes)],
        ["Last backup", view.backup ? time(view.backup) : "none known", !view.backup && code(`${view.program} backup FILE`)],
      ]),
    ])),
    view.node && section("Gateways on this ledger", nodeTable(view),
      h("p", { class: "dim" }, "The tables below are of the gateway that made this page, but for how the providers answer and the alerts.")),
    section("Providers", table({
      caption: "Providers",
      columns: [
        { label: "Name", cell: (one) => one.name },
        { label: "State", figure: true, cell: state },
        { label: "In flight", right: true, cell: (one) => count(one.in_flight) },
        { label: "Keys", class: "wide", cell: (one) => (one.keys.length ? one.keys.map(keyLoad) : dim("none")) },
      ],
      rows: view.providers.toSorted(byNeed),
    })),
    view.missing_usage.length ? section("Replies without a usage", usageTable(view.missing_usage)) : null,
    more,
    section("Latest errors (5xx)", view.errors.length ? errorTable(view.errors) : empty("None since the start.")),
  ];
}

const nodeTable = ({ node, nodes }) => table({
  caption: "Gateways that serve from this ledger",
  columns: [
    { label: "Gateway", cell: (one) => [one.name, one.name === node && h("small", null, "this page")] },
    { label: "Version", cell: (one) => one.version },
    { label: "Since (UTC)", cell: (one) => time(one.since) },
    { label: "Last seen (UTC)", cell: (one) => time(one.seen) },
  ],
  rows: nodes,
});

const keyLoad = (key) => h("div", null, key.last4 && [code(`…${key.last4}`), " "], `${count(key.in_flight)} in flight`,
  key.rest_seconds > 0 && `, rests for ${key.rest_seconds} s`,
  key.problem && h("small", null, `not renewed: ${key.problem}`));

const usageTable = (rows) => table({
  caption: "Replies without a usage, which are charged by an estimate",
  columns: [
    { label: "Provider", cell: (one) => one.provider },
    { label: "Model", cell: (one) => code(one.model) },
    { label: "Replies", right: true, cell: (one) => count(one.replies) },
    { label: "Last (UTC)", cell: (one) => time(one.last) },
  ],
  rows,
});

const errorTable = (rows) => table({
  caption: "Latest errors",
  columns: [
    { label: "Time (UTC)", cell: (one) => time(one.at) },
    { label: "Status", right: true, cell: (one) => String(one.status) },
    { label: "Code", cell: (one) => code(one.code) },
    { label: "Provider", cell: (one) => one.provider ?? dim("–") },
    { label: "Request id", cell: (one) => callLink(one.request_id) },
  ],
  rows,
});

function duration(seconds) {
  const days = Math.floor(seconds / 86400);
  const hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${plural(days, "day")} ${hours} h`;
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${Math.floor(seconds) % 60} s`;
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  const step = [["GiB", 30], ["MiB", 20], ["KiB", 10]].find(([, power]) => bytes >= 2 ** power);
  return step ? `${(bytes / 2 ** step[1]).toFixed(1)} ${step[0]}` : `${bytes} B`;
}
