// What pages are made of: heads, sections, tables, pagers, notices, copy buttons.

import { announce, h, newId } from "./dom.js";
import { columnAmount, count, plural, roundAmount, unit } from "./format.js";

/** The head of a page: its one h1, with the page's actions beside it. */
export const head = (title, ...actions) =>
  h("header", { class: "head" }, h("h1", { tabindex: "-1" }, title), h("div", { class: "actions" }, actions));

/** That of a page which renews itself while it is looked at, if an extra does that. */
export const liveHead = (title, ...actions) => head(title, actions, h("span", { class: "live" }));

export const section = (title, ...content) => h("section", { class: "card" }, h("h2", null, title), content);

export const button = (label, onclick, kind = "", more = {}) =>
  h("button", { type: "button", class: kind, onclick, ...more }, label);

export const link = (label, href, kind, more = {}) => h("a", { href, class: kind, ...more }, label);

export const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

export const code = (text) => h("code", null, text);

export const dim = (...text) => h("span", { class: "dim" }, text);

export const notice = (kind, ...content) =>
  h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, content);

/** Say below the head of the page what was done, in place of what was said last. */
export function tell(kind, ...content) {
  const said = notice(`${kind} told`, content);
  unsay();
  document.querySelector(".head").after(said);
  announce(said.textContent);
}

export const unsay = () => document.querySelector(".told")?.remove();

export const empty = (text, ...actions) => h("div", { class: "empty" }, h("p", null, text), actions);

/** Figures with their names: [[name, value, note?], …]. */
export const figures = (pairs) =>
  h("dl", { class: "figures" }, pairs.map(([name, value, note]) =>
    h("div", null, h("dt", null, name), h("dd", null, value, note && h("small", null, note)))));

const PHONE = matchMedia("(max-width: 40rem)");

const kinds = (column) => [column.right || column.money ? "right" : "", column.class ?? ""].join(" ").trim() || null;

/**
 * Columns are {label, cell(row)} or {label, money(row) → decimal string, exact?, under?(row)}; `foot` is one more row of totals.
 * Amounts are rounded unless the column is exact.
 *
 * Where it does not fit, rows become cards, whose cells show their labels. The roles keep it a table to screen readers.
 */
export function table({ caption, columns, rows, foot }) {
  const all = foot ? [...rows, foot] : rows;
  const write = columns.map((column) => {
    if (!column.money) return column.cell;
    const show = (row) => (column.exact ? column.money(row) : roundAmount(column.money(row)));
    const known = all.filter((row) => column.money(row) !== null);
    const decimals = Math.max(2, ...known.map((row) => show(row).split(".")[1].length));
    return (row) => [column.money(row) === null ? dim("–") : columnAmount(column.money(row), show(row), decimals), column.under?.(row)];
  });
  const heads = columns.map((column) => (column.money ? `${column.label}, ${unit()}` : column.label));
  const line = (row) => h("tr", { role: "row" }, columns.map((column, at) =>
    h(at ? "td" : "th", { role: at ? "cell" : "rowheader", scope: at ? null : "row", "data-label": heads[at], class: kinds(column) },
      h("div", null, write[at](row)))));
  const width = h("div");
  const region = h("div", { class: PHONE.matches ? "scroll cards" : "scroll", role: "region", "aria-label": caption, tabindex: "0" }, width,
    h("table", { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column, at) =>
        h("th", { role: "columnheader", scope: "col", class: kinds(column) }, heads[at])))),
      h("tbody", { role: "rowgroup" }, rows.map(line)),
      foot && h("tfoot", { role: "rowgroup" }, line(foot))));
  new ResizeObserver(() => fit(region)).observe(width);
  return region;
}

/** Called when the region gets another width: an observer of the region itself would meet the height that it sets. */
function fit(region) {
  region.classList.remove("cards");
  region.classList.toggle("cards", PHONE.matches || region.scrollWidth > region.clientWidth);
}

/** Keys to choose from, told apart by the end of the key. */
export const keyOptions = (keys) => keys.map((key) => [key.id, `${key.name || "unnamed"} ${key.display.slice(-5)}`]);

/** Columns of the tokens, all input in one figure as in the SDKs; those of caches only where something is in them. */
export function tokenColumns(rows) {
  const column = (label, read) => ({ label, right: true, cell: (row) => count(read(row)) });
  const used = (name) => rows.some((row) => row[name]);
  return [
    column("Input", (row) => row.input_tokens + row.cached_input_tokens + row.cache_write_tokens),
    used("cached_input_tokens") && column("of it cached", (row) => row.cached_input_tokens),
    used("cache_write_tokens") && column("of it written", (row) => row.cache_write_tokens),
    column("Output", (row) => row.output_tokens),
  ].filter(Boolean);
}

/** How many there are, if that is told, and the way to the next page; null where they are too many to count. */
export function pager(total, one, nextCursor, many) {
  const here = new URLSearchParams(location.search);
  const to = (cursor) => {
    const params = new URLSearchParams(here);
    if (cursor) params.set("cursor", cursor);
    else params.delete("cursor");
    return `${location.pathname}?${params}`;
  };
  return h("nav", { class: "pager", "aria-label": "Pages" },
    total !== undefined && h("span", null, total === null ? `More than 10,000 ${many ?? `${one}s`}` : plural(total, one, many)),
    here.has("cursor") && link("First page", to(null)),
    nextCursor && link("Next page", to(nextCursor), "", { rel: "next" }));
}

/** A button that copies and says so, to the eye and to the ear. */
export function copyButton(getText, label = "Copy", kind = "") {
  return button(label, async ({ currentTarget: me }) => {
    const copied = await copyText(getText(), me);
    announce(copied ? "Copied" : "Copying failed: select the text and copy it by hand");
    me.textContent = copied ? "Copied" : "Select it and copy";
    setTimeout(() => { me.textContent = label; }, 2000);
  }, `copy ${kind}`);
}

async function copyText(text, near) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text, near);
  }
}

/** The clipboard API is missing on plain http. The field stands near, for a dialog makes the rest inert. */
function copyBySelection(text, near) {
  const field = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
  near.after(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  near.focus();
  return copied;
}

/** A read-only text that is selected when it gets the focus, with its copy button. */
export function copyField(label, text) {
  const id = newId("copy");
  const field = h("input", { id, class: "mono", readonly: true, value: text, autocomplete: "off", spellcheck: "false" });
  field.addEventListener("focus", () => field.select());
  return h("div", { class: "field" }, h("label", { for: id }, label),
    h("div", { class: "joined" }, field, copyButton(() => text)));
}
