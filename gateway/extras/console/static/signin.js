// Signing in: name and password, maybe with a one-time code, or a one-use link.

import { api } from "./api.js";
import { h } from "./dom.js";
import { form, openDialog } from "./form.js";
import { brand, button, code, head, link, notice } from "./ui.js";

export function signIn({ params, done }) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  // Out of the address bar and the history; the token lives in this closure alone.
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return h("div", { class: "signin" },
    h("p", { class: "logo" }, brand()),
    head("Sign in"),
    params.has("next") && h("p", { class: "dim" }, "Sign in to go on where you were."),
    token ? byLink(token, done) : byPassword(done));
}

const byLink = (token, done) => [
  h("p", null, "Your link signs you in once. You can set a password under Settings."),
  form({
    submit: "Sign in with this link",
    run: async () => done(await api("POST", "/session/link", { body: { token } })),
  }),
  h("p", { class: "dim" }, h("a", { href: "/console/signin" }, "Use a password instead")),
];

const byPassword = (done) => [
  passwordForm([{ name: "name", label: "Name", required: true, autofocus: true, autocomplete: "username", autocapitalize: "none", spellcheck: "false" }], {}, done),
  h("details", null, h("summary", null, "Forgot password, or none yet?"), h("div", null,
    h("p", null, "Ask your operator for a sign-in link. It signs you in once; then set a new password under Settings."),
    h("p", { class: "dim" }, "Operators make one on the account’s page, or on the gateway’s machine: ", code("gateway account signin-link NAME")))),
];

/** A form that asks for a code, too, once the gateway wants one for this password. */
function passwordForm(first, known, done, cancel) {
  const node = h("div");
  const draw = (more, values) => node.replaceChildren(form({
    fields: [...first, { name: "password", label: "Password", type: "password", required: true, autocomplete: "current-password" }, ...more]
      .map((field) => ({ ...field, value: values[field.name] })),
    submit: "Sign in",
    cancel,
    run: async (body) => {
      try {
        return await done(await api("POST", "/session", { body: { ...known, ...body } }));
      } catch (error) {
        if (error.code !== "code_needed") throw error;
        draw([CODE], body);
        return node.querySelector("[name=code]").focus();
      }
    },
  }));
  draw([], {});
  return node;
}

export const CODE = { name: "code", label: "Code", required: true, autocomplete: "one-time-code", hint: "Of your authenticator app, or a recovery code." };

/** Sign in again in a dialog, for what needs it; without it that fails with the error. */
export const signInAgain = ({ name, has_password: known }, error) => new Promise((resolve, reject) => {
  openDialog("Sign in again", (close) => [
    h("p", null, error.message),
    known ? passwordForm([], { name }, () => { resolve(); close(); }, close) : h("div", { class: "actions" }, button("Close", close)),
  ]).addEventListener("close", () => reject(error));
});

/** For those whom a proxy signs in: they have no session here that could end. */
export const signOutElsewhere = () => [
  head("Sign out"),
  notice("", "The proxy in front of this gateway signs you in, so sign out there. Until then this page knows you."),
  link("To the overview", "/console/"),
];
