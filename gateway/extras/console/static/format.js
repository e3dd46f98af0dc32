// Money, counts and times as text. Money is decimal strings and BigInt, never a float.

import { h } from "./dom.js";

const SYMBOLS = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", CNY: "¥", INR: "₹", RUB: "₽" };
const NANO_DIGITS = 9;

let currency = "USD";

export function setCurrency(name) {
  currency = name;
}

/** The unit, for the head of a column. */
export const unit = () => currency;

export function toNano(amount) {
  const [, sign, whole, fraction = ""] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(amount);
  const nano = BigInt(whole + fraction.padEnd(NANO_DIGITS, "0"));
  return sign ? -nano : nano;
}

/** All digits that matter, at least two decimals: what the server's format_amount writes. */
export function fromNano(nano) {
  const digits = String(nano < 0n ? -nano : nano).padStart(NANO_DIGITS + 1, "0");
  const fraction = digits.slice(-NANO_DIGITS).replace(/0+$/, "").padEnd(2, "0");
  return `${nano < 0n ? "-" : ""}${digits.slice(0, -NANO_DIGITS)}.${fraction}`;
}

const group = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

/** "-1234.5" as "−1,234.5". */
export function groupAmount(amount) {
  const [whole, fraction] = amount.replace("-", "").split(".");
  return `${amount.startsWith("-") ? "−" : ""}${group(whole)}${fraction === undefined ? "" : `.${fraction}`}`;
}

/** An amount with its unit, for running text. */
export function amountText(amount) {
  const text = groupAmount(amount);
  const symbol = SYMBOLS[currency];
  if (!symbol) return `${text} ${currency}`;
  return text.startsWith("−") ? `−${symbol}${text.slice(1)}` : symbol + text;
}

/**
 * Amounts by kind. Charges, costs and spending: three digits, two below 1, all whole units. Balances and what is held: down to
 * the cent, debts up (`balance`), as nobody can spend what is rounded up. What is paid or checked (prices, payments, corrections, statements, receipts): exact (`exactAmount`).
 * Rounded ones have the exact amount as their title, and only 0 becomes 0.
 */
export const roundAmount = (value) => round(value, (digits) => (digits > NANO_DIGITS ? Math.max(0, 3 - (digits - NANO_DIGITS)) : null));

/** Round down to the cent, or to two digits below one. */
export const roundCents = (value) => round(value, (digits) => (digits > NANO_DIGITS - 2 ? 2 : null), true);

/** `choose` says how many decimals stay, by the number of digits in nano-units; null for two digits in all. */
function round(value, choose, down) {
  const nano = toNano(value);
  const size = nano < 0n ? -nano : nano;
  const digits = String(size).length;
  const decimals = size ? choose(digits) ?? NANO_DIGITS - digits + 2 : 2;
  const step = 10n ** BigInt(Math.max(0, NANO_DIGITS - decimals));
  const added = !down ? step / 2n : nano < 0n ? step - 1n : 0n;
  const text = fromNano((size + added) / step * step);
  const shown = decimals >= 2 ? text : decimals ? text.slice(0, -1) : text.slice(0, -3);
  return nano < 0n ? `-${shown}` : shown;
}

export const roundText = (value) => amountText(roundAmount(value));

/** The title is the exact amount, if another is shown. */
const element = (value, shown, kind, ...content) =>
  h("data", { value, title: toNano(shown) === toNano(value) ? null : amountText(value), class: `money ${kind}` }, content);

/** An amount that stands alone, rounded. */
export const amount = (value) => element(value, roundAmount(value), "", roundText(value));

/** A balance, what is held or a limit. */
export const balance = (value, kind = "") => element(value, roundCents(value), kind, amountText(roundCents(value)));

/** What somebody owes, as an amount above 0. */
export const debt = (value) => {
  const shown = roundCents(`-${value}`).slice(1);
  return element(value, shown, "", amountText(shown));
};

export const bigAmount = (value) => balance(value, "big");

/** An amount that stands alone, exact. */
export const exactAmount = (value) => element(value, value, "", amountText(value));

/** An amount in a column: unit in its head, and in cards beside it; points under each other. `shown` is the value, exact or rounded. */
export function columnAmount(value, shown, decimals) {
  const [, fraction] = shown.split(".");
  const missing = fraction === undefined ? decimals > 0 && `.${"0".repeat(decimals)}` : "0".repeat(decimals - fraction.length);
  const [, sign, digits] = /^(−?)(.*)$/.exec(groupAmount(shown));
  const symbol = SYMBOLS[currency];
  const mark = h("span", { class: "unit" }, symbol ?? ` ${currency}`);
  return element(value, shown, "", sign, symbol && mark, digits, missing && h("span", { class: "pad", "aria-hidden": "true" }, missing), !symbol && mark);
}

export const count = (number) => (number === null || number === undefined ? "–" : group(String(number)));

/** How much more was charged than in as long a span before. */
export function growth(now, before) {
  if (before <= 0) return now > 0 ? "new" : "";
  const percent = Math.round((100 * (now - before)) / before);
  return `${percent > 0 ? "+" : percent < 0 ? "−" : ""}${count(Math.abs(percent))} %`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** "2026-05-14…" as "14 May", with the hour if there is one. */
export function shortDay(at) {
  const text = `${Number(at.slice(8, 10))} ${MONTHS[Number(at.slice(5, 7)) - 1]}`;
  return at.length > 10 ? `${text}, ${at.slice(11, 16)}` : text;
}

export const readSetting = (name) => {
  try { return localStorage.getItem(name); } catch { return null; }
};

export const writeSetting = (name, value) => {
  try { localStorage.setItem(name, value); } catch { /* Storage is off: it lasts as long as the page. */ }
};

/** UTC, the local time as an addition. */
export function time(iso, { day = false, brief = false, none = "–" } = {}) {
  if (!iso) return none;
  const utc = iso.slice(0, day ? 10 : brief ? 16 : 19).replace("T", " ");
  const local = new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return h("time", { datetime: iso, title: `${iso.slice(0, 19).replace("T", " ")} UTC; here ${local}` }, utc,
    readSetting("local-time") === "yes" && !day && h("span", { class: "local" }, local));
}

/** Milliseconds of two percentiles, in seconds. Those of sums in buckets are near: one may be above the longest time. */
export const percentiles = (half, most, exact) => (half === null ? "–" : `${exact ? "" : "≈ "}${seconds(half)} / ${seconds(most)} s`);

export const seconds = (ms) => (ms / 1000).toFixed(ms < 10000 ? 2 : 1);

/** The UTC day, some days from today. */
export const utcDay = (offset = 0) => new Date(Date.now() + offset * 86400000).toISOString().slice(0, 10);
