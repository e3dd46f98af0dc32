// Every call: what it used, cost and became. Never what was said in it.

import { ApiError, apiUrl, get, query } from "./api.js";
import { callTable, showRefused } from "./calls.js";
import { h } from "./dom.js";
import { filters } from "./form.js";
import { plural, time } from "./format.js";
import { badge, button, code, empty, head, keyOptions, link, liveHead, pager } from "./ui.js";

const NAMES = ["request_id", "account", "key", "model", "provider", "outcome", "status", "slower_than", "sort", "from", "to"];

const PENDING = { outcome: "pending" };

export async function activity({ params, session, signal, reload, load }) {
  const { operator } = session.account;
  const chosen = Object.fromEntries(NAMES.map((name) => [name, params.get(name)]));
  const filtered = NAMES.some((name) => chosen[name]);
  const [keys, providers, pending, list] = await Promise.all([
    getKeys(chosen, operator, signal),
    operator ? get("/providers", signal).then((view) => view.providers.map((one) => one.name)) : [],
    filtered ? { count: 0 } : get(`/activity${query({ ...PENDING, limit: 1 })}`, signal),
    getCalls(chosen, params.get("cursor"), signal),
  ]);
  const refused = chosen.request_id && !list.calls.length && await getRefused(chosen.request_id.trim(), signal);
  const nothing = filtered
    ? empty(chosen.request_id ? `No call${operator ? "" : " of this account"} has that request id. Requests that were refused before they began are found for 7 days.` : "No calls match these filters.", link("All calls", "/console/activity"))
    : empty("No calls yet. A new key comes with a snippet that makes one.", link("To your keys", "/console/keys", "button"));
  // Nothing is to be expected of an id that nobody has, and each look would be another 404 in the log.
  const title = chosen.request_id && !list.calls.length ? head : liveHead;
  const key = keys?.find(({ id }) => id === chosen.key);
  return [
    title("Activity", link("CSV", apiUrl(`/activity.csv${query(chosen)}`), "button", { download: "" })),
    (list.count !== 0 || filtered) && filters(fields(chosen, { session, keys, providers, outcomes: list.outcomes }), reload),
    key && keyLine(key, await load("keytable"), reload),
    pending.count > 0 && h("p", null, link(`${plural(pending.count, "call")} in flight`, `/console/activity${query(PENDING)}`)),
    list.calls.length ? [callTable(list.calls, "Calls", { accounts: operator }), partNote(chosen, list), pager(chosen.sort || chosen.slower_than ? undefined : list.count, "call", list.next_cursor)] : refused ? showRefused(refused, operator) : nothing,
  ];
}

/** The chosen key and a way to stop it: the search for the end of a leaked key leads here. */
const keyLine = (key, { askRevoke, isDead }, reload) => h("p", null, "Key ", h("b", null, key.name || "unnamed"), " ", code(key.display), " ",
  isDead(key) ? badge(key.status) : button("Revoke", () => askRevoke(key, reload), "quiet red", { "aria-label": `Revoke ${key.name || key.display}` }));

/** A page of calls. The server looks at so many for slow ones; if none is among them, the next are older. */
async function getCalls(chosen, cursor, signal) {
  const list = await get(`/activity${query({ ...chosen, cursor })}`, signal);
  return list.calls.length || !list.next_cursor ? list : getCalls(chosen, list.next_cursor, signal);
}

/** What the page is about if its rows are not simply the latest. */
function partNote({ sort, slower_than }, { looked_since: since }) {
  if (sort) return h("p", { class: "dim" }, "Those that took longest", since && [", of the calls since ", time(since), " UTC; the next page has older ones"], ".");
  return slower_than && since && h("p", { class: "dim" }, "Of the calls since ", time(since), " UTC; the next page has older ones.");
}

/** The request of an id if it was refused, or else null. */
async function getRefused(id, signal) {
  try {
    const one = await get(`/activity/${encodeURIComponent(id)}`, signal);
    return one.state === "refused" ? one : null;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
    return null;
  }
}

/** The keys to choose from; null where they are those of all accounts. */
async function getKeys({ account }, operator, signal) {
  if (!operator) return (await get("/keys?status=all&limit=200", signal)).keys;
  // The list itself says what is wrong with the account's name.
  return account ? get(`/accounts/by-name${query({ name: account })}`, signal).then((one) => one.key_list, () => null) : null;
}

const choice = (name, label, chosen, options) => ({ name, label, type: "select", value: chosen ?? "", options: [["", "all"], ...options] });

const withChosen = (ids, chosen) => [...new Set([...ids, chosen].filter(Boolean))].map((id) => [id, id]);

function fields(chosen, { session, keys, providers, outcomes }) {
  const { operator } = session.account;
  return [
    { name: "request_id", label: "Request id", type: "search", value: chosen.request_id, class: "mono", spellcheck: "false" },
    operator && { name: "account", label: "Account", type: "search", value: chosen.account, spellcheck: "false" },
    choice("model", "Model", chosen.model, withChosen(session.models, chosen.model)),
    keys ? choice("key", "Key", chosen.key, keyOptions(keys))
      : { name: "key", label: "Key id", type: "search", value: chosen.key, class: "mono", spellcheck: "false" },
    operator && choice("provider", "Provider", chosen.provider, withChosen(providers, chosen.provider)),
    choice("outcome", "Outcome", chosen.outcome, Object.entries(outcomes)),
    { name: "status", label: "Status", type: "number", min: 100, max: 599, value: chosen.status },
    { name: "slower_than", label: "Slower than, s", type: "number", min: 1, value: chosen.slower_than, title: "Of the last 7 days, unless From is set" },
    { name: "sort", label: "Show", type: "select", value: chosen.sort ?? "", options: [["", "latest"], ["slowest", "slowest"]], title: "The slowest of the last 7 days, unless From is set" },
    { name: "from", label: "From", type: "date", value: chosen.from },
    { name: "to", label: "To (UTC)", type: "date", value: chosen.to },
  ].filter(Boolean);
}
