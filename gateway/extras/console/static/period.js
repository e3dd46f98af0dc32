// Choosing days: links to the latest days and to calendar months, beside the filters `from` and `to`.

import { h } from "./dom.js";
import { MONTHS, utcDay } from "./format.js";
import { link } from "./ui.js";

const LAST_MONTHS = 6;

/** The latest days up to today: [label, from, to]. */
export const latestDays = () => [["7 days", 6], ["30 days", 29], ["90 days", 89], ["1 year", 364]]
  .map(([label, days]) => [label, utcDay(-days), utcDay()]);

/** The present month up to today, and those before it. */
export function latestMonths() {
  const [year, month] = utcDay().split("-").map(Number);
  const day = (ago, number) => new Date(Date.UTC(year, month - 1 - ago, number)).toISOString().slice(0, 10);
  return Array.from({ length: LAST_MONTHS }, (_, ago) => {
    const from = day(ago, 1);
    const name = MONTHS[Number(from.slice(5, 7)) - 1];
    return [from.startsWith(`${year}`) ? name : `${name} ${from.slice(0, 4)}`, from, ago ? day(ago - 1, 0) : utcDay()];
  });
}

/** Links to such ranges; the other filters stay. */
export const rangeLinks = (view, ranges) => h("p", { class: "ranges" }, ranges.map(([label, from, to]) =>
  link(label, rangeUrl(from, to), "", { "aria-current": view.from === from && view.to === to ? "true" : null })));

function rangeUrl(from, to) {
  const params = new URLSearchParams(location.search);
  params.set("from", from);
  params.set("to", to);
  params.delete("cursor");
  // By the hour a month at most is shown.
  const days = (Date.parse(to) - Date.parse(from)) / 86400000;
  if (params.get("by") === "hour" && days > 30) params.delete("by");
  return `${location.pathname}?${params}`;
}

/** The fields of `filters` for the range of a view. */
export const rangeFields = ({ from, to }) => [
  { name: "from", label: "From", type: "date", value: from, required: true },
  { name: "to", label: "To (UTC)", type: "date", value: to, required: true },
];
