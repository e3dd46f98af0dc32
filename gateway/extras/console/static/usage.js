// Usage: stacked bars by model, the table with its totals under them, both from one answer.

import { apiUrl, get, query } from "./api.js";
import { h } from "./dom.js";
import { count, growth, utcDay } from "./format.js";
import { filters } from "./form.js";
import { latestDays, latestMonths, rangeFields, rangeLinks } from "./period.js";
import { code, empty, head, keyOptions, link, notice, section, table, tokenColumns } from "./ui.js";
import { MAX_SERIES } from "./chart.js";
import { METRICS, usageChart, zoomTo } from "./usagechart.js";

const GROUPS = { day: "Day (UTC)", hour: "Hour (UTC)", model: "Model", key: "Key", account: "Account", provider: "Provider" };

function readFilters() {
  const params = new URLSearchParams(location.search);
  const read = (name) => params.get(name) || null;
  return {
    by: read("by") ?? "day", from: read("from") ?? utcDay(-29), to: read("to") ?? utcDay(),
    account: read("account"), key: read("key"), model: read("model"), show: METRICS[read("show")] ? read("show") : "money",
  };
}

export async function usage({ session, signal, go, load: loadScript }) {
  const chosen = readFilters();
  const all = session.account.operator;
  const path = all ? "/gateway/usage" : "/usage";
  const load = async ({ show: _, ...asked }) => {
    const times = `/latency${query({ by: "account", day: asked.to, account: asked.account })}`;
    const [view, latency] = await Promise.all([get(`${path}${query(asked)}`, signal), all && get(times, signal)]);
    return { ...view, latency };
  };
  const [{ latencySection }, keys, first] = await Promise.all([all ? loadScript("latency") : {}, all ? [] : get("/keys?status=all&limit=200", signal), load(chosen)]);
  const results = h("div", { class: "stack", "aria-live": "off" });
  const actions = h("span", { class: "actions" });
  const ranges = h("div");
  const show = (view) => {
    const now = readFilters();
    const { show: _, ...asked } = now;
    ranges.replaceChildren(rangeLinks(view, [...latestDays(), ...latestMonths()]));
    actions.replaceChildren(
      link("JSON", apiUrl(`${path}${query(asked)}`), "button", { download: `usage-${view.from}-${view.to}.json` }),
      link("CSV", apiUrl(`${path}.csv${query(asked)}`), "button", { download: "" }));
    results.replaceChildren(
      section(GROUPS[view.by] === GROUPS.hour ? "By hour and model" : "By day and model", usageChart(view, now.show, MAX_SERIES, zoomTo(go, now))),
      section(`By ${view.by}`, usageTable(view)), ...(view.latency && view.latency.rows.length ? [latencySection(view.latency)] : []));
  };
  const change = async () => {
    const asked = location.href;
    try {
      const view = await load(readFilters());
      // Another change may have been answered first.
      if (asked === location.href) show(view);
    } catch (error) {
      // A range that cannot be is mended in the filters, which stay.
      if (error.status !== 400) throw error;
      if (asked === location.href) results.replaceChildren(notice("bad", error.message));
    }
  };
  const form = filters(fields(chosen, keys.keys, first.models, all), change);
  show(first);
  return [head("Usage", actions), ranges, form, results];
}

function fields(chosen, keys, models, all) {
  const any = (label, options) => [["", label], ...options];
  return [
    ...rangeFields(chosen),
    { name: "by", label: "Table by", type: "select", value: chosen.by, options: Object.keys(GROUPS).filter((by) => all || !["account", "provider"].includes(by)).map((by) => [by, by]) },
    all && { name: "account", label: "Account", value: chosen.account ?? "", placeholder: "all" },
    { name: "model", label: "Model", type: "select", value: chosen.model ?? "", options: any("all", withChosen(models.map((id) => [id, id]), chosen.model)) },
    !all && { name: "key", label: "Key", type: "select", value: chosen.key ?? "", options: any("all", withChosen(keyOptions(keys), chosen.key)) },
    { name: "show", label: "Chart of", type: "select", value: chosen.show, options: Object.keys(METRICS).map((name) => [name, name]) },
  ].filter(Boolean);
}

const withChosen = (options, chosen) => (!chosen || options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]]);

/** To other usage of the same days. */
const usageUrl = ({ from, to }, chosen) => `/console/usage${query({ ...chosen, from, to })}`;

const NAMES = {
  day: (row) => h("time", { datetime: row.day }, row.day),
  hour: (row) => h("time", { datetime: row.hour }, row.hour.slice(0, 16).replace("T", " ")),
  model: (row) => code(row.model),
  account: (row) => link(row.account, usageUrl(readFilters(), { account: row.account })),
  provider: (row) => row.provider,
  key: (row, { from, to }) => [link(row.key_name || "unnamed", `/console/activity${query({ key: row.key, from, to })}`), " ", code(row.key_display)],
};

function usageTable(view) {
  if (!view.rows.length) return empty("No calls in this range. Choose a longer one, or fewer filters, or make a call.", link("Try it", "/console/try", "button"));
  const { totals } = view;
  return table({
    caption: `Usage by ${view.by}`,
    columns: [
      { label: GROUPS[view.by], cell: (row) => (row === totals ? "Total" : NAMES[view.by](row, view)) },
      { label: "Calls", right: true, cell: (row) => count(row.requests) },
      ...tokenColumns(view.rows),
      { label: "Cost", money: (row) => row.cost },
      view.by === "account" && { label: "To the span before", right: true, cell: (row) => row !== totals && growth(row.cost_nano, row.cost_before_nano) },
    ].filter(Boolean),
    rows: view.rows,
    foot: totals,
  });
}

/** The section of an account's page. */
export const usageOf = (view, account, go) => view.rows.length > 0 && section(["Last 30 days", link("By day, key or provider", usageUrl(view, { account }))], usageChart(view, "money", 5, zoomTo(go, { account })), h("details", null, h("summary", null, "As a table"), usageTable(view)));
