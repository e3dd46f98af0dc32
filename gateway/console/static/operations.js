// Operators: providers, and how the gateway is.

import { get } from "./api.js";
import { h } from "./dom.js";
import { amount, count, duration, size, time } from "./format.js";
import { badge, code, dim, empty, figures, head, link, notice, section, table } from "./ui.js";

const BREAKERS = { closed: ["working", "good"], open: ["tried last", "bad"], probing: ["being tried", "warn"] };

function breaker(one) {
  if (!one.on) return badge("off", "warn");
  const [text, kind] = BREAKERS[one.breaker];
  return [badge(text, kind), one.breaker_seconds > 0 && dim(` for ${one.breaker_seconds} s`), one.troubled.map(trouble)];
}

const trouble = (one) => h("small", null, code(one.model), " ",
  one.rest_seconds > 0 ? `asked for a pause, ${one.rest_seconds} s left` : `${BREAKERS[one.breaker][0]}${one.breaker_seconds > 0 ? ` for ${one.breaker_seconds} s` : ""}`);

const load = (one) => [count(one.in_flight), one.max_concurrency > 0 && dim(" of ", count(one.max_concurrency))];

export async function providers({ signal }) {
  const list = await get("/providers", signal);
  return [
    head("Providers"),
    h("p", { class: "dim" }, "They are set in gateway.toml."),
    list.count ? table({
      caption: "Providers",
      columns: [
        { label: "Name", cell: (one) => h("span", { class: "name" }, one.name) },
        { label: "State", class: "wide", cell: (one) => [breaker(one), one.off_reason && h("small", null, one.off_reason)] },
        { label: "Speaks", cell: (one) => one.dialect },
        { label: "Origin", cell: (one) => (one.origin ? code(one.origin) : dim("built in")) },
        { label: "Key", cell: (one) => (one.key_last4 ? code(`…${one.key_last4}`) : dim("none")) },
        { label: "In flight", right: true, cell: load },
        { label: "Models", class: "wide", cell: (one) => one.models.map((id, index) => [index > 0 && ", ", code(id)]) },
      ],
      rows: list.providers,
    }) : empty("No providers are set in gateway.toml."),
  ];
}

export async function health({ signal, reload }) {
  const view = await get("/health", signal);
  const auditText = { true: "balances and entries agree", false: "MISMATCH", null: "not run yet" }[view.audit.ok];
  return [
    head("Health", h("button", { type: "button", onclick: reload }, "Refresh")),
    view.audit.ok === false && notice("bad", "The audit found that balances and entries disagree. ", link("See the report", "/console/audit")),
    !view.ledger_writable && notice("bad", "The ledger cannot be written: new requests are refused. Look at the disk: space, permissions."),
    view.draining && notice("warn", "Draining: requests in flight end, new ones are refused."),
    section("Gateway", figures([
      ["Up for", duration(view.uptime_seconds), ["since ", time(view.started)]],
      ["In flight", count(view.in_flight), `of ${count(view.max_in_flight)}`],
      ["Loop lag", view.loop_lag_ms === null ? "–" : `${view.loop_lag_ms.toFixed(1)} ms`],
      ["Version", view.version],
    ])),
    section("Ledger", figures([
      ["Audit", auditText, view.audit.at && time(view.audit.at)],
      ["Open holds", count(view.open_holds), amount(view.held)],
      ["Database", size(view.database_bytes)],
      ["Write-ahead log", size(view.wal_bytes)],
      ["Last backup", view.backup ? time(view.backup) : "none known", !view.backup && code("python -m gateway backup FILE")],
    ])),
    section("Providers", table({
      caption: "Providers",
      columns: [
        { label: "Name", cell: (one) => one.name },
        { label: "State", cell: breaker },
        { label: "In flight", right: true, cell: load },
      ],
      rows: view.providers,
    })),
    view.missing_usage.length ? section("Replies without a usage", usageTable(view.missing_usage)) : null,
    section("Latest errors (5xx)", view.errors.length ? errorTable(view.errors) : empty("None since the start.")),
  ];
}

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
    { label: "Request id", cell: (one) => h("span", { class: "mono" }, one.request_id) },
  ],
  rows,
});
