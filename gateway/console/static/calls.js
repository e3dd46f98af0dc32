// The table of calls, and what became of them in words.

import { h } from "./dom.js";
import { count, time } from "./format.js";
import { badge, code, dim, table, tokenColumns } from "./ui.js";

const OUTCOMES = {
  pending: ["in flight"],
  complete: ["done"],
  caller_left: ["caller left", "warn"],
  upstream_error: ["provider failed", "bad"],
  upstream_timeout: ["provider too slow", "bad"],
  rejected: ["refused", "warn"],
  ledger_error: ["not charged", "bad"],
  shutdown: ["gateway stopped", "warn"],
  internal_error: ["gateway failed", "bad"],
  interrupted: ["interrupted", "bad"],
};

function outcome(call) {
  const [text, kind] = OUTCOMES[call.outcome] ?? [call.outcome, ""];
  const notes = [call.status !== null && call.status !== 200 && `status ${call.status}`, call.estimated && "estimated"].filter(Boolean);
  return [kind ? badge(text, kind) : text, notes.length > 0 && h("small", null, notes.join(", "))];
}

const allTokens = (call) => count(call.input_tokens + call.cached_input_tokens + call.cache_write_tokens + call.output_tokens);

const ms = (value) => (value === null ? dim("–") : count(value));

export function callTable(calls, caption, { brief } = {}) {
  const columns = [
    { label: brief ? "Started (UTC)" : "Started (UTC), request id", cell: (call) => [time(call.started), !brief && h("small", { class: "mono" }, call.request_id)] },
    { label: brief ? "Model" : "Model, provider", cell: (call) => [code(call.model), !brief && h("small", null, call.provider)] },
    { label: "Key", cell: (call) => call.key_name || code(call.key_display) },
    ...(brief ? [{ label: "Tokens", right: true, cell: allTokens }] : tokenColumns(calls)),
    { label: "Cost", money: (call) => call.cost },
    { label: "Total, ms", right: true, cell: (call) => [ms(call.total_ms), !brief && h("small", null, "first byte ", ms(call.first_byte_ms))] },
    { label: "Outcome", cell: outcome },
  ];
  return table({ caption, columns, rows: calls });
}
