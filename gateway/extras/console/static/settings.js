// Password, one-time codes, sessions, people, and how things are shown here.

import { api, get } from "./api.js";
import { copyButton, copyField } from "./copy.js";
import { announce, h } from "./dom.js";
import { ask, form, openDialog } from "./form.js";
import { plural, readSetting, time, writeSetting } from "./format.js";
import { peopleSection } from "./people.js";
import { CODE } from "./signin.js";
import { badge, button, code, dim, head, link, notice, section, table } from "./ui.js";

const MIN_PASSWORD = 12;
const PEOPLE = "/settings/signins";

export async function settings(context) {
  const { account, person, by_proxy: proxied } = context.session;
  const [more, list, totp, { signins }] = await Promise.all([context.parts("settings", context),
    ...["/sessions", "/settings/totp", PEOPLE].map((path) => get(path, context.signal))]);
  return [
    head("Settings"),
    !proxied && section(context.session.has_password ? "Change password" : "Set a password", passwordForm(context)),
    !proxied && section("One-time codes", codes(totp, context)),
    more,
    section("Sessions", sessionTable(list.sessions, context),
      list.count > 1 && h("div", { class: "actions" }, button("Sign out everywhere else", () => endOthers(context)))),
    peopleSection(signins, { account, path: PEOPLE, linkPath: proxied ? null : PEOPLE, acts: !person }, context),
    section("Display", displayForm(context)),
  ];
}

function passwordForm({ session, refreshSession, reload }) {
  return form({
    fields: [
      { name: "name", label: "Name", value: session.name, autocomplete: "username", readonly: true },
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

const codes = (totp, context) => (totp.enabled
  ? [h("p", null, "On since ", time(totp.since, { day: true }), `: your password needs a code, too. ${plural(totp.recovery_codes, "recovery code")} left.`),
    h("div", { class: "actions" }, button("Remove", () => askRemoval(context), "red"))]
  : [h("p", null, "With codes of an authenticator app, a stolen password alone opens nothing."),
    h("div", { class: "actions" }, button("Set up", () => askSetUp(context)))]);

const askSetUp = (context) => ask({
  title: "Set up one-time codes",
  intro: "You need an authenticator app. All your other sessions end.",
  submit: "Show the key",
  run: async () => {
    const made = await api("POST", "/settings/totp");
    return () => showKey(made, context);
  },
});

const showKey = (made, context) => openDialog("Set up one-time codes", (close) => [
  h("p", null, "Add this key to your app, or ", link("open it there", made.url), ". Then type the code that it shows."),
  copyField("Key", made.secret),
  form({
    fields: [{ ...CODE, hint: "" }], submit: "Turn on", cancel: close,
    run: async (body) => {
      const made = await api("POST", "/settings/totp/confirm", { body });
      close();
      context.place(recoveryView(made.recovery_codes, context));
    },
  }),
]);

const recoveryView = (recovery, { reload }) => [
  head("One-time codes are on"),
  notice("warn", h("strong", null, "Shown once."), " Each works once in place of the app. Keep them elsewhere."),
  section("Recovery codes", h("ul", null, recovery.map((one) => h("li", null, code(one))))),
  h("div", { class: "actions" }, copyButton(() => recovery.join("\n")), button("I stored them", reload, "primary")),
];

const askRemoval = ({ reload }) => ask({
  title: "Remove one-time codes?",
  intro: "All your other sessions end.",
  fields: [CODE],
  submit: "Remove",
  danger: true,
  run: async (body) => {
    await api("POST", "/settings/totp/remove", { body });
    return reload;
  },
});

function sessionTable(sessions, { reload }) {
  const end = async (one) => {
    await api("DELETE", `/sessions/${encodeURIComponent(one.id)}`).catch((error) => {
      if (error.code !== "not_found") throw error; // else it has ended already
    });
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
