// One call: how it ended and who ended it, what it used and what it cost. Never what was said.

import { ApiError, api, get } from "./api.js";
import { outcomeKind, showRefused } from "./calls.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { amountText, count, exactAmount, fromNano, groupAmount, time, unit } from "./format.js";
import { accountLink } from "./links.js";
import { failureWords } from "./observations.js";
import { badge, button, code, dim, empty, figures, head, link, notice, section, table } from "./ui.js";

const ENDED_BY = { upstream: "the provider", caller: "the caller", gateway: "the gateway" };
const CLASSES = [
  ["Input, not cached", "input", "input_tokens", "million"],
  ["Input, cached", "cached_input", "cached_input_tokens", "million"],
  ["Input, written to the cache", "cache_write", "cache_write_tokens", "million"],
  ["Input, written for an hour", "cache_write_1h", "cache_write_1h_tokens", "million"],
  ["Output", "output", "output_tokens", "million"],
  ["Of the input, audio", "audio_input", "audio_input_tokens", "million"],
  ["Of the input, images", "image_input", "image_input_tokens", "million"],
  ["Of the output, audio", "audio_output", "audio_output_tokens", "million"],
  ["Of the output, images", "image_output", "image_output_tokens", "million"],
  ["Web searches", "web_search", "web_searches", "thousand"],
  ["The call itself", "request", null, "call"],
];

export async function call({ name: id, session, signal, reload }) {
  const up = h("p", null, link("Activity", "/console/activity"));
  let one;
  try {
    one = await get(`/activity/${encodeURIComponent(id)}`, signal);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return [up, head("Call"), h("p", { class: "mono" }, id), empty(error.message)];
  }
  if (one.state === "refused") return [up, head("Call"), showRefused(one, session.account.operator)];
  return [
    up,
    head("Call", session.account.operator && charged(one) > 0n && button("Refund", () => askRefund(one, reload)), copyButton(() => one.request_id, "Copy the request id")),
    notice(outcomeKind(one.outcome) && "warn", one.explanation),
    section("Money", moneyFigures(one), one.corrections.length > 0 && correctionTable(one.corrections)),
    section("How it ended", endFigures(one),
      one.failures?.map((failure) => h("p", { class: "words" }, `The provider ${failure.rejected ? "rejected the request" : "failed"} at `, time(failure.at), ": ", failureWords(failure)))),
    section("Who and where", figures([
      ["Request id", h("span", { class: "mono" }, one.request_id)],
      ["Account", session.account.operator ? accountLink(one.account) : one.account],
      ["Key", [one.key_name || dim("unnamed"), " ", code(one.key_display)], code(one.key)],
      ["Model", code(one.model)],
      ["Provider", one.provider, one.attempts === null ? null : `attempts: ${one.attempts}`],
      ["Reply", one.stream ? "a stream" : "in one piece"],
    ])),
    section("Tokens and prices", priceTable(one), priceRule(one)),
  ];
}

/** What the call costs after all corrections: nothing is left to give back of a call that was refunded. */
const charged = (one) => one.corrections.reduce((left, row) => left - BigInt(row.amount_nano), BigInt(one.cost_nano));

const askRefund = (one, reload) => ask({
  title: "Refund",
  intro: ["The call cost ", amountText(one.cost), ". The account gets back what you enter; the same amount is given back once."],
  fields: [
    { name: "amount", label: `Amount, ${unit()}`, required: true, value: fromNano(charged(one)) },
    { name: "note", label: "Reason", required: true },
  ],
  submit: "Give back",
  run: async ({ amount, note }, idempotencyKey) => {
    // The rest is given back even if as much was before.
    const part = amount === fromNano(charged(one)) ? {} : { amount };
    await api("POST", "/refunds", { body: { request_id: one.request_id, note, ...part }, idempotencyKey });
    return reload;
  },
});

const took = (one) => (one.ended === null ? "–" : `${count(Math.max(Date.parse(one.ended) - Date.parse(one.started), 0))} ms`);

const endFigures = (one) => figures([
  ["Outcome", outcomeKind(one.outcome) ? badge(one.outcome, outcomeKind(one.outcome)) : one.outcome],
  ["Ended by", ENDED_BY[one.ended_by] ?? "–"],
  ["Status", one.status === null ? "–" : String(one.status)],
  ["Started (UTC)", time(one.started)],
  ["First byte after", one.first_byte_ms === null ? "–" : `${count(one.first_byte_ms)} ms`],
  ["Ended (UTC)", time(one.ended), one.ended && `after ${took(one)}`],
]);

/** How many a price is for. */
const UNITS = { million: 1000000n, thousand: 1000n, call: 1n };

/** What a line costs, in millionths of a nano-unit. Tokens of media with a price of their own are in the line of their class, too. */
function lineCost({ name, used, per, nano }, rows) {
  const own = rows.filter((row) => [`audio_${name}`, `image_${name}`].includes(row.name) && row.nano !== undefined);
  const rest = own.reduce((left, row) => left - row.used, used ?? 1);
  return BigInt(rest) * BigInt(nano ?? 0) * (UNITS.million / UNITS[per]);
}

/** All digits of such an amount, `decimals` at least. */
function lineText(scaled, decimals) {
  const digits = String(scaled).padStart(16, "0");
  return `${groupAmount(digits.slice(0, -15))}.${digits.slice(-15).replace(/0+$/, "").padEnd(decimals, "0")}`;
}

function priceTable(one) {
  const rows = CLASSES
    .map(([label, name, used, per]) => ({ label, name, price: one.price[name], used: used && one[used], per, nano: one.price[`${name}_nano`] }))
    .filter((row) => row.used || (row.used === null && row.nano))
    .concat(Object.entries(one.tool_calls).filter(([name]) => name !== "web_search")
      .map(([name, used]) => ({ label: ["Calls of ", code(name)], price: one.price.tools[name]?.price, used, per: "call", nano: one.price.tools[name]?.price_nano })));
  if (!rows.length) return dim("Nothing was used.");
  const costs = new Map(rows.map((row) => [row, lineCost(row, rows)]));
  const sum = [...costs.values()].reduce((all, cost) => all + cost, 0n);
  const charge = BigInt(one.cost_nano) * UNITS.million;
  const over = charge - sum;
  // Not of a bill of the provider, nor of a call that cost nothing.
  const isSum = over >= 0n && over < UNITS.million && !rows.some((row) => costs.get(row) < 0n);
  const decimals = Math.max(2, ...[...costs.values(), charge].map((cost) => lineText(cost, 0).split(".")[1].length));
  const foot = isSum && { label: "Charged" };
  return [table({
    caption: "Tokens and prices",
    columns: [
      { label: "Used", cell: (row) => row.label },
      { label: "Number", right: true, cell: (row) => row !== foot && (row.used === null ? dim("–") : count(row.used)) },
      { label: "Price", exact: true, money: (row) => row.price ?? null },
      { label: "Per", cell: (row) => row.per },
      isSum && { label: `Cost, ${unit()}`, right: true, cell: (row) => (row !== foot && row.nano === undefined ? dim("–") : lineText(costs.get(row) ?? charge, decimals)) },
    ].filter(Boolean),
    rows,
    foot,
  }), isSum && over > 0n && h("p", { class: "dim" }, `The lines are ${lineText(sum, 2)} together: a charge is rounded up once, to nine decimals.`)];
}

const priceRule = (one) => h("p", { class: "dim" }, one.price.by_bill && "The price goes by what the provider says it charged; where it does not say, by these. ", one.price_rule ? ["Prices chosen by the rule ", code(one.price_rule), "."] : "The model’s base prices.");

const STATES = { pending: "not settled yet", posted: "the cost was charged", voided: "nothing was charged" };

const moneyFigures = (one) => figures([
  ["Cost", exactAmount(one.cost), one.estimated && "estimated: the provider did not report all usage"],
  ["State", one.state, STATES[one.state]],
  ["Held meanwhile", exactAmount(one.hold)],
]);

const correctionTable = (rows) => table({
  caption: "Corrections",
  columns: [
    { label: "Time (UTC)", cell: (one) => time(one.created) },
    { label: "Added to the balance", exact: true, money: (one) => one.amount },
    { label: "Reason", class: "wide", cell: (one) => one.note },
  ],
  rows,
});
