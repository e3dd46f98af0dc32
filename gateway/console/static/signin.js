// Signing in: name and password, or the button for a one-use link.

import { api } from "./api.js";
import { h } from "./dom.js";
import { form } from "./form.js";
import { head, link, notice } from "./ui.js";

export function signIn({ params, done }) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  // Out of the address bar and the history; the token lives in this closure alone.
  if (token) history.replaceState(null, "", location.pathname + location.search);
  return h("div", { class: "signin" },
    h("p", { class: "logo" }, "Gateway"),
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
  form({
    fields: [
      { name: "name", label: "Name", required: true, autocomplete: "username", autocapitalize: "none", spellcheck: "false" },
      { name: "password", label: "Password", type: "password", required: true, autocomplete: "current-password" },
    ],
    submit: "Sign in",
    run: async (body) => done(await api("POST", "/session", { body })),
  }),
  h("p", { class: "dim" }, "No password yet, or forgotten? Ask the operator for a sign-in link."),
];

/** For those whom a proxy signs in: they have no session here that could end. */
export const signOutElsewhere = () => [
  head("Sign out"),
  notice("", "The proxy in front of this gateway signs you in, so sign out there. Until then this page knows you."),
  link("To the overview", "/console/"),
];
