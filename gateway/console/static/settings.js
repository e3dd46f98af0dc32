// Password, sessions, and how things are shown here.

import { ownAlerts } from "./alerts.js";
import { api, get } from "./api.js";
import { announce, h } from "./dom.js";
import { form } from "./form.js";
import { readSetting, time, writeSetting } from "./format.js";
import { badge, button, dim, head, notice, section, table } from "./ui.js";

const MIN_PASSWORD = 10;

export async function settings(context) {
  const [list, alerts] = await Promise.all([get("/sessions", context.signal), get("/settings/alerts", context.signal)]);
  return [
    head("Settings"),
    !context.session.by_proxy && section(context.session.has_password ? "Change password" : "Set a password", passwordForm(context)),
    ownAlerts(alerts, context),
    section("Sessions", sessionTable(list.sessions, context),
      list.count > 1 && h("div", { class: "actions" }, button("Sign out everywhere else", () => endOthers(context)))),
    section("Display", displayForm(context)),
  ];
}

function passwordForm({ session, refreshSession, reload }) {
  return form({
    fields: [
      { name: "name", label: "Name", value: session.account.name, autocomplete: "username", readonly: true },
      session.current_password_needed && { name: "current_password", label: "Current password", type: "password", required: true, autocomplete: "current-password" },
      { name: "new_password", label: "New password", type: "password", required: true, minlength: MIN_PASSWORD, autocomplete: "new-password",
        hint: `At least ${MIN_PASSWORD} characters. All your other sessions end.` },
    ].filter(Boolean),
    submit: "Save password",
    run: async ({ name: _, ...body }) => {
      await api("POST", "/settings/password", { body });
      await refreshSession();
      await reload();
      document.querySelector(".head").after(notice("good", "The password is saved."));
      announce("The password is saved");
    },
  });
}

function sessionTable(sessions, { reload }) {
  const end = async (one) => {
    await api("DELETE", `/sessions/${encodeURIComponent(one.id)}`);
    await reload();
    announce("Session ended");
  };
  return table({
    caption: "Sessions",
    columns: [
      { label: "Device", class: "wide", cell: (one) => [one.device, one.current && [" ", badge("this one", "good")]] },
      { label: "Address", cell: (one) => one.address ?? dim("–") },
      { label: "Signed in (UTC)", cell: (one) => time(one.created) },
      { label: "Last seen (UTC)", cell: (one) => time(one.last_seen) },
      { label: "Actions", class: "acts", cell: (one) => button("End", () => end(one), "quiet red", { "aria-label": `End the session on ${one.device}` }) },
    ],
    rows: sessions,
  });
}

async function endOthers({ reload }) {
  await api("DELETE", "/sessions");
  await reload();
  announce("All other sessions ended");
}

function displayForm({ reload }) {
  const theme = (value) => {
    writeSetting("theme", value);
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
  };
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const choice = (id, label, options, value, onchange) => h("div", { class: "field" },
    h("label", { for: id }, label),
    h("select", { id, value, onchange: (event) => onchange(event.target.value) }, options.map(([key, text]) => h("option", { value: key }, text))));
  return h("div", { class: "inline" },
    choice("theme", "Theme", [["", "as the system"], ["light", "light"], ["dark", "dark"]], readSetting("theme") ?? "", theme),
    choice("zone", "Times", [["", "UTC"], ["yes", `UTC, with ${zone}`]], readSetting("local-time") ?? "",
      (value) => { writeSetting("local-time", value); reload(); }),
    h("p", { class: "hint" }, "Kept in this browser. Days are UTC days in either case."));
}
