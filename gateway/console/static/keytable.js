// The table of keys, for holders and operators; revoking, which both may.

import { api } from "./api.js";
import { h } from "./dom.js";
import { ask } from "./form.js";
import { groupAmount, time, unit } from "./format.js";
import { badge, code, dim, table } from "./ui.js";

const IDLE_DAYS = 90;
const SOON_DAYS = 7;

export const isDead = (key) => key.status === "revoked" || key.status === "expired";

/** Of one account; `act(key)` makes what stands in the last column. */
export function keyTable(rows, act) {
  return table({
    caption: "Keys",
    columns: [
      { label: "Name", class: "wide", cell: (key) => h("div", { class: "badges" }, h("span", { class: "name" }, key.name || dim("unnamed")), badges(key)) },
      { label: "Key", cell: (key) => [code(key.display), h("small", null, "since ", time(key.created, { day: true }))] },
      { label: "Last used (UTC)", cell: (key) => time(key.last_used, { brief: true, none: dim("never") }) },
      { label: "30 days", money: (key) => key.spent_30d },
      { label: `Spent, ${unit()}`, right: true, cell: capText },
      { label: "Expires", cell: (key) => time(key.expires, { day: true, none: dim("never") }) },
      { label: "Actions", cell: (key) => h("div", { class: "rowactions" }, act(key)) },
    ],
    rows,
  });
}

const capText = (key) => [groupAmount(key.spent), key.cap !== null && h("small", null, "of ", groupAmount(key.cap))];

const ageDays = (iso) => (Date.now() - Date.parse(iso)) / 86400000;

function badges(key) {
  if (isDead(key)) return badge(key.status);
  return [
    key.replaced_by && badge("replaced", "warn"),
    key.status === "cap_spent" && badge("cap spent", "bad"),
    key.cap === null && badge("no cap"),
    key.expires && !key.replaced_by && -ageDays(key.expires) <= SOON_DAYS && badge("expires soon", "warn"),
    ageDays(key.created) >= IDLE_DAYS && !key.last_used && badge("never used", "warn"),
    key.last_used && ageDays(key.last_used) >= IDLE_DAYS && badge(`idle ${IDLE_DAYS} days`, "warn"),
  ].filter(Boolean);
}

export const askRevoke = (key, after) => ask({
  title: `Revoke ${key.name || key.display}?`,
  intro: "Programs that use it are refused from the next call on. This cannot be undone.",
  submit: "Revoke key",
  danger: true,
  run: async () => {
    await api("POST", `/keys/${encodeURIComponent(key.id)}/revoke`);
    return after;
  },
});
