// Operators: top-up codes. The codes themselves are shown when they are made, and never again.

import { api, get, query } from "./api.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { ask, filters } from "./form.js";
import { amountText, plural, time, unit, utcDay } from "./format.js";
import { badge, button, code, dim, empty, head, link, notice, pager, section, table } from "./ui.js";

const STATUSES = [["", "all"], ["open", "open"], ["redeemed", "redeemed"], ["void", "void"], ["expired", "expired"]];
const KINDS = { open: "good", redeemed: "", void: "warn", expired: "warn" };

export async function codes(context) {
  const { params, signal } = context;
  const chosen = { status: params.get("status"), batch: params.get("batch") };
  const list = await get(`/codes${query({ ...chosen, cursor: params.get("cursor") })}`, signal);
  const make = button("Make codes", () => askMake(context), "primary");
  if (!list.count && !chosen.status && !chosen.batch) {
    return [head("Codes"), empty("A top-up code is worth an amount, once, to whoever redeems it under Billing. There are none yet.", make)];
  }
  return [
    head("Codes", make),
    filters([{ name: "status", label: "State", type: "select", options: STATUSES, value: chosen.status ?? "" }], context.reload),
    chosen.batch && h("p", null, "Of one batch. ", link("All codes", "/console/codes"), " ",
      button("Void the open ones", () => askVoidBatch(chosen.batch, context), "quiet red")),
    list.codes.length ? codeTable(list.codes, context) : empty("No codes in this state."),
    pager(list.count, "code", list.next_cursor),
  ];
}

const codeTable = (rows, context) => table({
  caption: "Top-up codes",
  columns: [
    { label: "Code", cell: (one) => code(one.display) },
    { label: "Amount", exact: true, money: (one) => one.amount },
    { label: "State", cell: (one) => badge(one.status, KINDS[one.status]) },
    { label: "Made (UTC)", cell: (one) => [time(one.created, { brief: true }), h("small", null, "by ", one.created_by)] },
    { label: "Expires", cell: (one) => time(one.expires, { day: true, none: dim("never") }) },
    { label: "Redeemed (UTC)", cell: (one) => (one.redeemed ? [time(one.redeemed, { brief: true }), h("small", null, "by ", link(one.redeemed_by, `/console/accounts/${encodeURIComponent(one.redeemed_by)}`))] : dim("–")) },
    { label: "Note", class: "wide", cell: (one) => one.note || dim("–") },
    { label: "Actions", class: "acts", cell: (one) => h("div", { class: "rowactions" },
      link("Batch", `/console/codes?batch=${encodeURIComponent(one.batch)}`),
      one.status === "open" && button("Void", () => askVoid(one, context), "quiet red", { "aria-label": `Void ${one.display}` })) },
  ],
  rows,
});

const askMake = (context) => ask({
  title: "Make codes",
  fields: [
    { name: "amount", label: `Amount of each, ${unit()}`, required: true, inputmode: "decimal" },
    { name: "count", label: "How many", type: "number", value: "1", min: 1, max: 1000, required: true },
    { name: "expires", label: "Expire", type: "date", min: utcDay(1), hint: "At 00:00 UTC of that day. Empty: never." },
    { name: "note", label: "Note", maxlength: 500, hint: "For you; holders don’t see it." },
  ],
  submit: "Make codes",
  run: async ({ count, expires, note, amount }, idempotencyKey) => {
    const body = { amount, count: Number(count), ...(expires && { expires }), ...(note && { note }) };
    const made = await api("POST", "/codes", { body, idempotencyKey });
    return () => context.place(madeView(made, context));
  },
});

function madeView(made, { go }) {
  const text = made.codes.join("\n");
  const worth = `${plural(made.codes.length, "code")} of ${amountText(made.amount)}`;
  const field = h("textarea", { class: "mono codes", readonly: true, rows: Math.min(made.codes.length + 1, 16), "aria-label": "Codes", value: text });
  field.addEventListener("focus", () => field.select());
  return [
    head("Codes made"),
    notice("warn", h("strong", null, "Shown once."), " Copy or save them now. Lost them? Void the batch and make new ones."),
    section(worth, field, h("div", { class: "actions" }, copyButton(() => text, "Copy all"), button("Save as CSV", () => saveCsv(made))),
      h("p", { class: "dim" }, made.expires ? ["They expire on ", time(made.expires), " UTC."] : "They do not expire.")),
    h("div", { class: "actions" }, button("I stored them", () => go(`/console/codes?batch=${encodeURIComponent(made.batch)}`), "primary")),
  ];
}

function saveCsv(made) {
  const lines = ["code,amount,expires", ...made.codes.map((one) => `${one},${made.amount},${made.expires ?? ""}`)];
  const url = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
  h("a", { href: url, download: `codes-${made.batch}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const askVoid = (one, { reload }) => ask({
  title: `Void ${one.display}?`,
  intro: "Nobody can redeem it any more. This cannot be undone.",
  submit: "Void code",
  danger: true,
  run: async () => {
    await api("POST", `/codes/${encodeURIComponent(one.id)}/void`);
    return reload;
  },
});

const askVoidBatch = (batch, { reload }) => ask({
  title: "Void all open codes of this batch?",
  intro: "Nobody can redeem them any more. Those redeemed already stay as they are.",
  submit: "Void codes",
  danger: true,
  run: async () => {
    await api("POST", "/codes/void-batch", { body: { batch } });
    return reload;
  },
});
