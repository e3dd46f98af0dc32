// Figures with a line of the last days, and how they changed.

import { h, svg } from "./dom.js";

const WEEK = 7;
const WHOLE_DAYS = "The 7 days before today, beside the 7 before them";

/**
 * One figure of a list: `days` are those of two weeks and today, `read(day)` is a number of one of them. The figure of a
 * `state`, such as a balance, is that at a day's end; others are sums. Their change is that of whole days, as its title says.
 */
export function tile({ label, value, days, read, state, note }) {
  const values = days.map(read);
  const last = values.length - (state ? 0 : 1);
  const [now, before] = state ? [values.at(-1), values.at(-1 - WEEK)] : [sum(values.slice(last - WEEK, last)), sum(values.slice(last - 2 * WEEK, last - WEEK))];
  return h("div", null,
    h("dt", null, label),
    h("dd", null, value, spark(values), h("small", { title: state ? null : WHOLE_DAYS }, change(now, before, { state, any: values.slice(-WEEK).some(Boolean) })), h("small", null, note)));
}

export const tiles = (...list) => h("dl", { class: "figures tiles" }, list);

const sum = (values) => values.reduce((all, value) => all + value, 0);

/** `any`: whether the figure shows anything. */
function change(now, before, { state, any }) {
  const than = state ? "a week ago" : "the week before";
  if (before <= 0) return any && before === 0 ? `none ${than}` : "";
  const percent = Math.round((100 * (now - before)) / before);
  if (!percent) return `as ${than}`;
  if (percent >= 1000) return `${Math.round(now / before)} times ${than}`;
  return `${percent > 0 ? "+" : "−"}${Math.abs(percent)} % ${state ? "in a week" : `to ${than}`}`;
}

/** A line without axes: the figure above it is what is read. */
function spark(values) {
  const top = Math.max(...values, 0);
  const low = Math.min(...values, 0);
  const points = values.map((value, at) => `${((at * 100) / (values.length - 1)).toFixed(1)} ${(22 - (20 * (value - low)) / (top - low || 1)).toFixed(1)}`);
  return svg("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { class: "line s1", d: `M${points.join("L")}` }));
}
