// What pages are made of: heads, sections, tables, pagers, notices, copy buttons.

import { announce, h } from "./dom.js";
import { columnAmount, count, plural, roundAmount, roundCents, unit } from "./format.js";

/** The gateway’s name: the title as it came, less “ console”. */
export const NAME = document.title.slice(0, -8);

const logo = document.querySelector("[data-logo]");
/** Logo and name. */
export const brand = () => [logo && h("img", { src: logo.href, alt: "" }), h("span", null, NAME)];

/** The head of a page: its one h1, with the page's actions beside it. */
export const head = (title, ...actions) =>
  h("header", { class: "head" }, h("h1", { tabindex: "-1" }, title), h("div", { class: "actions" }, actions));

/** That of a page which renews itself while it is looked at, if an extra does that. */
export const liveHead = (title, ...actions) => head(title, actions, h("span", { class: "live" }));

/** `title` may be [title, ...actions], which stand beside it. */
export function section(title, ...content) {
  const [words, ...actions] = [title].flat();
  const heading = h("h2", null, words);
  return h("section", { class: "card" }, actions.length ? h("div", { class: "title" }, heading, actions) : heading, content);
}

/** A section that is folded on phones until it is asked for. */
export const foldedSection = (title, ...content) =>
  h("details", { class: "card", open: !PHONE.matches }, h("summary", null, h("h2", null, title)), h("div", { class: "stack" }, content));

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

/** As many rows style.css shows on phones at least. */
const FEW = 5;

/** Texts of cells that tell nothing. */
const NOTHING = /^(–|none|never|done|\D?0(\.0+)?( [A-Z]{3})?)?$/;

/** The column that cards have beside the name. */
const findFigure = (columns) => columns.find((one) => one.figure) ?? columns.find((one) => one.money) ?? columns.find((one) => one.right);

/**
 * Columns are {label, cell(row)} or {label, money(row) → decimal string, exact?, cents?, under?(row)}; `foot` is one more row of totals.
 * Columns that tell nothing are left out unless they have `keep`, and those that read as the one so many (`alike`) before them.
 *
 * On phones, and where it does not fit, rows become cards; style.css cuts long ones. The roles keep it a table to screen readers.
 */
export function table({ caption, columns, rows, foot }) {
  const all = foot ? [...rows, foot] : rows;
  const figure = findFigure(columns);
  const texts = [];
  const made = columns.map((column, at) => {
    const label = column.money ? `${column.label}, ${unit()}` : column.label;
    const kind = [column.right || column.money ? "right" : "", column.class, column === figure ? "figure" : ""].filter(Boolean).join(" ") || null;
    const write = writer(column, all);
    const cells = all.map((row) => {
      const inner = h("div", null, write(row));
      const empty = NOTHING.test(inner.textContent);
      return h(at ? "td" : "th", { role: at ? "cell" : "rowheader", scope: at ? null : "row", "data-label": column.label, "data-empty": empty, class: kind }, inner);
    });
    texts[at] = cells.map((cell) => cell.textContent).join("\n");
    const repeats = column.alike && texts[at] === texts[at - column.alike];
    const told = !at || column.keep || !rows.length || !repeats && cells.some((cell) => !("empty" in cell.dataset));
    return told && { cells, head: h("th", { role: "columnheader", scope: "col", class: kind }, label) };
  }).filter(Boolean);
  const lines = all.map((_, at) => h("tr", { role: "row" }, made.map(({ cells }) => cells[at])));
  const width = h("div");
  const region = h("div", { class: PHONE.matches ? "scroll cards" : "scroll", role: "region", "aria-label": caption, tabindex: "0" }, width,
    h("table", { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, made.map(({ head }) => head))),
      h("tbody", { role: "rowgroup" }, lines.slice(0, rows.length)),
      foot && h("tfoot", { role: "rowgroup" }, lines.at(-1))),
    rows.length > FEW && button(`Show all ${count(rows.length)}`, () => {
      region.classList.add("all");
      region.focus({ preventScroll: true });
    }, "more"));
  new ResizeObserver(() => fit(region)).observe(width);
  return region;
}

function writer(column, all) {
  if (!column.money) return column.cell;
  const { exact, cents } = column;
  const show = (row) => {
    if (typeof exact === "function" ? exact(row) : exact) return column.money(row);
    return (cents ? roundCents : roundAmount)(column.money(row));
  };
  const digits = (row) => show(row).split(".")[1]?.length ?? 0;
  const decimals = Math.max(0, ...all.filter((row) => column.money(row) !== null).map(digits));
  return (row) => [column.money(row) === null ? dim("–") : columnAmount(column.money(row), show(row), decimals), column.under?.(row)];
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
