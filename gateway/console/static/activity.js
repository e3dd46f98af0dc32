// Every call: what it used, cost and became. Never what was said in it.

import { apiUrl, get, query } from "./api.js";
import { callTable } from "./calls.js";
import { filters } from "./form.js";
import { empty, head, keyOptions, link, pager } from "./ui.js";

const NAMES = ["request_id", "model", "key", "from", "to"];

export async function activity({ params, session, signal, reload }) {
  const chosen = Object.fromEntries(NAMES.map((name) => [name, params.get(name)]));
  const [keys, list] = await Promise.all([
    get("/keys?status=all&limit=200", signal),
    get(`/activity${query({ ...chosen, cursor: params.get("cursor") })}`, signal),
  ]);
  const filtered = NAMES.some((name) => chosen[name]);
  const nothing = filtered
    ? empty(chosen.request_id ? "No call of this account has that request id. A request that was refused before it began is not listed." : "No calls match these filters.", link("All calls", "/console/activity"))
    : empty("No calls yet. A new key comes with a snippet that makes one.", link("To your keys", "/console/keys", "button"));
  return [
    head("Activity", link("CSV", apiUrl(`/activity.csv${query(chosen)}`), "button", { download: "" })),
    (list.count > 0 || filtered) && filters(fields(chosen, session, keys.keys), reload),
    list.calls.length ? [callTable(list.calls, "Calls"), pager(list.count, "call", list.next_cursor)] : nothing,
  ];
}

function fields(chosen, session, keys) {
  const models = [...new Set([...session.models, chosen.model].filter(Boolean))];
  return [
    { name: "request_id", label: "Request id", type: "search", value: chosen.request_id, class: "mono", spellcheck: "false" },
    { name: "model", label: "Model", type: "select", value: chosen.model ?? "", options: [["", "all"], ...models.map((id) => [id, id])] },
    { name: "key", label: "Key", type: "select", value: chosen.key ?? "", options: [["", "all"], ...keyOptions(keys)] },
    { name: "from", label: "From", type: "date", value: chosen.from },
    { name: "to", label: "To (UTC)", type: "date", value: chosen.to },
  ];
}
