// The table of calls, and what became of them in words.

import { h } from "./dom.js";
import { count, time } from "./format.js";
import { accountLink, callLink } from "./links.js";
import { badge, code, dim, figures, notice, table } from "./ui.js";

/** What is not the gateway's or a provider's fault; else an outcome is bad. */
const KINDS = { pending: "", complete: "", caller_left: "warn", rejected: "warn", shutdown: "warn" };

export const outcomeKind = (outcome) => KINDS[outcome] ?? "bad";

function outcome(call) {
  const kind = outcomeKind(call.outcome);
  const notes = [call.status !== null && call.status !== 200 && `status ${call.status}`, call.estimated && "estimated"].filter(Boolean);
  return [kind ? badge(call.outcome_label, kind) : call.outcome_label, notes.length > 0 && h("small", null, notes.join(", "))];
}

const isPending = (call) => call.outcome === "pending";

/** A figure of what ended; until then nothing is known. */
const known = (show) => (call) => (isPending(call) ? dim("–") : show(call));

const allTokens = (call) => count(call.input_tokens + call.cached_input_tokens + call.cache_write_tokens + call.output_tokens);

function input(call) {
  const [cached, written] = [call.cached_input_tokens, call.cache_write_tokens];
  return [count(call.input_tokens + cached + written), cached > 0 && h("small", null, `${count(cached)} cached`), written > 0 && h("small", null, `${count(written)} written`)];
}

const ms = (value) => (value === null ? dim("–") : count(value));

const keyName = (call) => call.key_name || code(call.key_display);

/** `accounts`: whether they are calls of several accounts. */
export function callTable(calls, caption, { brief, accounts } = {}) {
  const columns = [
    { label: brief ? "Started (UTC)" : "Started (UTC), request id", cell: (call) => (brief ? callLink(call.request_id, time(call.started)) : [time(call.started), h("small", null, callLink(call.request_id))]) },
    !brief && { label: "Outcome", keep: true, cell: outcome },
    { label: brief ? "Model" : "Model, provider", cell: (call) => [code(call.model), !brief && !call.model.startsWith(`${call.provider}/`) && h("small", null, call.provider)] },
    { label: accounts ? "Account, key" : "Key", cell: (call) => (accounts ? [accountLink(call.account), h("small", null, keyName(call))] : keyName(call)) },
    brief && { label: "Tokens", right: true, cell: known(allTokens) },
    !brief && { label: "Input", right: true, cell: known(input) },
    !brief && { label: "Output", right: true, cell: known((call) => count(call.output_tokens)) },
    { label: "Cost", money: (call) => (isPending(call) ? null : call.cost) },
    { label: "Total, ms", right: true, cell: (call) => ms(call.total_ms) },
    brief && { label: "Outcome", cell: outcome },
  ].filter(Boolean);
  return table({ caption, columns, rows: calls });
}

/** What is known of a request that the gateway refused. */
export const showRefused = (one, operator) => [
  notice("warn", "The gateway refused this request before it asked a provider. It cost nothing. ", one.reason),
  figures([
    ["Request id", h("span", { class: "mono" }, one.request_id)],
    ["Account", operator ? accountLink(one.account) : one.account],
    ["Refused (UTC)", time(one.at)],
    ["Code", code(one.code)],
    ["Key", one.key ? [one.key_name || dim("unnamed"), " ", code(one.key_display)] : dim("–")],
    ["Model asked for", one.model ? code(one.model) : dim("–")],
  ]),
];
