// Alerts: the latest ones to operators, and a holder's webhook and threshold.

import { api, get } from "./api.js";
import { copyField } from "./copy.js";
import { announce, h } from "./dom.js";
import { form } from "./form.js";
import { time, unit } from "./format.js";
import { badge, button, code, dim, empty, notice, section, table } from "./ui.js";

function status(one) {
  if (one.delivered) return [badge("delivered", "good"), h("small", null, time(one.delivered))];
  const word = one.next_try ? badge("waits", "warn") : badge("given up", "bad");
  return [word, one.reason && h("small", null, one.reason), one.next_try && one.attempts > 0 && h("small", null, "next try ", time(one.next_try))];
}

const alertTable = (rows) => table({
  caption: "Alerts",
  columns: [
    { label: "Raised (UTC)", cell: (one) => time(one.created) },
    { label: "Alert", class: "wide", cell: (one) => h("div", { class: "words" }, one.text, h("small", null, one.kind, " by ", one.channel)) },
    { label: "State", cell: status },
  ],
  rows,
});

const testButton = (path, reload) => button("Send a test", async () => {
  await api("POST", path);
  await reload();
  announce("A test is on its way");
});

/** For operators. */
export async function healthPart({ signal, reload }) {
  const view = await get("/alerts", signal);
  return section("Alerts",
    !view.channels.length && h("p", { class: "dim" }, "Off. Set a webhook or a command under ", code("[alerts]"), " in gateway.toml."),
    view.channels.length > 0 && (view.count ? alertTable(view.alerts) : empty("None within 31 days.")),
    view.channels.length > 0 && h("div", { class: "actions" }, testButton("/alerts/test", reload)));
}

/** For holders, where the operator allows webhooks. */
export async function settingsPart({ signal, reload }) {
  const view = await get("/settings/alerts", signal);
  if (!view.available) return null;
  return section("Alerts",
    h("p", { class: "dim" }, "The gateway posts a JSON message to your webhook when your balance falls below the threshold (again only after it was above), a budget is spent to 80 or 100 %, a password or one-time codes change, or a card payment is taken back."),
    form({
      fields: [
        { name: "webhook", label: "Webhook", type: "url", value: view.webhook ?? "", maxlength: 500,
          hint: "An https address that takes a POST. Empty: no messages. A new address gets a new signing secret." },
        { name: "low_balance", label: `Threshold, ${unit()}`, inputmode: "decimal", value: view.low_balance ?? "",
          hint: "Empty: the gateway’s own. It is also when this console warns you." },
      ],
      submit: "Save",
      run: async ({ webhook, low_balance: low }) => {
        const saved = await api("POST", "/settings/alerts", { body: { webhook: webhook || null, low_balance: low || null } });
        await reload();
        document.querySelector(".head").after(saved.secret
          ? notice("good", "Saved. This secret signs what your webhook gets; it is shown only once.", copyField("Signing secret", saved.secret))
          : notice("good", "Saved."));
        announce("Saved");
      },
    }),
    view.webhook && h("div", { class: "actions" }, testButton("/settings/alerts/test", reload)),
    view.alerts.length > 0 && alertTable(view.alerts));
}
