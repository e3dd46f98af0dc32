// Operators: how the providers answer, and what was refused.

import { get, query } from "./api.js";
import { h } from "./dom.js";
import { filters } from "./form.js";
import { count, plural, time, utcDay } from "./format.js";
import { latencySection } from "./latency.js";
import { accountLink, callLink } from "./links.js";
import { badge, code, dim, empty, link, liveHead, section, table } from "./ui.js";

const KINDS = { working: "good", failing: "bad", resting: "warn", probing: "warn", off: "warn" };
const PERIODS = [["today", "today"], ["7d", "7 days"], ["30d", "30 days"]];

/** In order: those that fail, then those with the most calls. */
export const byNeed = (one, other) => isFailing(other) - isFailing(one) || (other.today?.calls ?? 0) - (one.today?.calls ?? 0);

const isFailing = ({ state }) => Number(KINDS[state] === "bad");

/** The state of a provider, or of one of its models. */
export function state(one) {
  const [word, figures] = one.state_text.split(" (");
  return [badge(word, KINDS[one.state] ?? ""), figures && h("small", null, figures.replace(")", ""))];
}

const load = (one) => [count(one.in_flight), one.max_concurrency > 0 && dim(" of ", count(one.max_concurrency))];

/** Calls, and how many of them failed. */
const sums = ({ calls, failures }) => [count(calls), failures > 0 && h("small", { class: "red" }, `${count(failures)} failed`)];

/** Why a provider failed, what its error is called there, and at which address. */
export function failureWords({ reason, url, ...error }) {
  const names = ["type", "code", "param"].filter((name) => error[name]).map((name) => `${name} ${error[name]}`);
  return [reason, names.length > 0 && ` (${names.join(", ")})`, url && h("span", { class: "aside" }, " at ", code(url))];
}

const lastFailure = ({ last_failure: failure }) => (failure ? h("div", { class: "words" },
  failureWords(failure), h("small", null, " ", time(failure.at), " ", callLink(failure.request_id))) : dim("none"));

export async function providers(context) {
  const { params, signal, reload } = context;
  const day = params.get("day") ?? utcDay();
  const [list, latency, more] = await Promise.all([get("/providers", signal), get(`/latency${query({ day })}`, signal), context.parts("providers", context)]);
  const rows = list.providers.flatMap((one) => one.upstream_models.map((model) => ({ ...model, name: one.name })));
  return [
    liveHead("Providers", h("button", { type: "button", onclick: reload }, "Refresh")),
    h("p", { class: "dim" }, "They are set in gateway.toml. A key from the environment is the one that the gateway started with.", list.node && ` What rests and what is in flight is of ${list.node}.`),
    list.count ? providerTable(list.providers.toSorted(byNeed), more) : empty("No providers are set in gateway.toml."),
    rows.length > 0 && section("How they answer",
      h("p", { class: "dim" }, "Completions and embeddings by model: the last 50 to 60 minutes, this UTC day, and the last failure within 31 days."),
      answerTable(rows.toSorted(byNeed))),
    latencySection(latency, filters([{ name: "day", label: "Replies of the day (UTC)", type: "date", value: day }], reload)),
  ];
}

/** The ends of keys; those that are too short to show are counted. */
function keyEnds({ key_last4: all }) {
  const ends = all.filter(Boolean);
  const hidden = all.length - ends.length;
  if (!all.length) return dim("none");
  return [ends.map((end) => h("div", null, code(`…${end}`))), hidden > 0 && h("div", null, plural(hidden, ends.length ? "more key" : "key"))];
}

const providerTable = (rows, more) => table({
  caption: "Providers",
  columns: [
    { label: "Name", cell: (one) => h("span", { class: "name" }, one.name) },
    { label: "State", class: "wide", figure: true, cell: (one) => [state(one), one.off_reason && h("small", null, one.off_reason)] },
    { label: "Speaks", cell: (one) => one.dialect },
    { label: "Origin", cell: (one) => (one.origin ? code(one.origin) : dim("built in")) },
    { label: "Keys", cell: keyEnds },
    { label: "In flight", right: true, cell: load },
    { label: "Models", class: "wide aside", cell: (one) => one.models.map((id, index) => [index > 0 && ", ", code(id)]) },
    more.length && { label: "Actions", class: "acts", cell: (one) => more.map((show) => show(one.name)) },
  ].filter(Boolean),
  rows,
});

const answerTable = (rows) => table({
  caption: "How the providers answer",
  columns: [
    { label: "Provider, its model", cell: (one) => [h("span", { class: "name" }, one.name), h("small", null, code(one.model))] },
    { label: "State", figure: true, cell: state },
    { label: "Last hour", right: true, cell: (one) => sums(one.hour) },
    { label: "Today", right: true, alike: 1, cell: (one) => sums(one.today) },
    { label: "Last failure", class: "wide", cell: lastFailure },
  ],
  rows,
});

export async function refusals({ params, signal, reload }) {
  const chosen = { account: params.get("account"), period: params.get("period") ?? "7d" };
  const list = await get(`/refusals${query(chosen)}`, signal).catch((error) => {
    if (error.code !== "not_found") throw error;
    return { refusals: [], unknown: true };
  });
  return [
    liveHead("Refusals"),
    h("p", { class: "dim" }, "Requests that the gateway refused before it asked a provider. They cost nothing and are not listed under Activity, but a search for the request id finds them there."),
    filters([
      { name: "account", label: "Account", type: "search", value: chosen.account },
      { name: "period", label: "Within (UTC days)", type: "select", value: chosen.period, options: PERIODS },
    ], reload),
    list.refusals.length
      ? [refusalTable(list.refusals.toSorted((one, other) => other.count - one.count)), h("p", { class: "dim" }, `${plural(list.count, "request")} refused.`),
        list.latest.length > 0 && section("The latest, of 7 days", latestTable(list.latest))]
      : empty(list.unknown ? "There is no account of that name." : "Nothing was refused in this time.", !list.unknown && chosen.period !== "30d" && link("The last 30 days", "?period=30d")),
  ];
}

const latestTable = (rows) => table({
  caption: "The latest refused requests",
  columns: [
    { label: "Refused (UTC)", cell: (one) => time(one.at) },
    { label: "Account, key", cell: (one) => [accountLink(one.account), one.key && h("small", null, one.key_name || one.key_display)] },
    { label: "Code", cell: (one) => code(one.code) },
    { label: "Model asked for", cell: (one) => (one.model ? code(one.model) : dim("–")) },
    { label: "Request id", cell: (one) => callLink(one.request_id) },
  ],
  rows,
});

const refusalTable = (rows) => table({
  caption: "Refusals",
  columns: [
    { label: "Account", cell: (one) => (one.account ? accountLink(one.account) : dim("unknown key")) },
    { label: "Code", cell: (one) => code(one.code) },
    { label: "Model", cell: (one) => (one.model ? code(one.model) : dim("–")) },
    { label: "Requests", right: true, cell: (one) => count(one.count) },
    { label: "Last (UTC)", cell: (one) => [time(one.last), h("small", { class: "mono" }, one.last_request_id)] },
  ],
  rows,
});
