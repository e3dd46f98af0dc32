// The people who sign in to an account: shown, let in by a link, removed.

import { api, get } from "./api.js";
import { copyField } from "./copy.js";
import { announce, h } from "./dom.js";
import { ask, openDialog } from "./form.js";
import { count, time } from "./format.js";
import { button, dim, head, link, section, table } from "./ui.js";

const PERSON = { name: "person", label: "Name", required: true, maxlength: 100, autocapitalize: "none", spellcheck: "false" };

/** Operators: make a sign-in link for an account or, with `person`, for somebody in it. */
export const askLink = (name, account, context, person = null) => ask({
  title: `Sign-in link for ${name}`,
  intro: "It signs in once, without a password. An earlier unused link stops working.",
  submit: "Make a link",
  run: async () => {
    const made = await api("POST", `/accounts/${account.id}/signin-link`, { body: { person } });
    return () => showLink(name, made, context);
  },
});

const askNew = (account, path, context) => ask({
  title: `Let somebody in to ${account}`,
  intro: "They get a password, one-time codes and sessions of their own, and may do what this account may.",
  fields: [{ ...PERSON, hint: `They sign in as ${account}/NAME.` }],
  submit: "Make a link",
  run: async ({ person }) => {
    const made = await api("POST", path, { body: { person } });
    return () => showLink(`${account}/${person}`, made, context);
  },
});

const showLink = (name, made, { reload }) => openDialog(`Sign-in link for ${name}`, (close) => [
  h("p", null, "Shown once. Send it to the holder alone; it works until ", time(made.expires), " UTC. Then they set a password."),
  copyField("Link", made.url),
  h("div", { class: "actions" }, button("Done", () => { close(); reload(); }, "primary")),
]);

const askRemoval = (one, path, { reload }) => ask({
  title: `Remove ${one.name}?`,
  intro: "The password, one-time codes, link and sessions end at once. Keys that were made stay.",
  submit: "Remove",
  danger: true,
  run: async () => {
    await api("DELETE", `${path}/${encodeURIComponent(one.person)}`);
    announce(`${one.name} is removed`);
    return reload;
  },
});

/** Operators: the people of an account, as a page of their own. */
export async function peopleOf(account, context) {
  const path = `/accounts/${account.id}`;
  const { signins } = await get(`${path}/signins`, context.signal);
  return [
    h("p", null, link(account.name, `/console/accounts/${encodeURIComponent(account.name)}`)),
    head(`People of ${account.name}`),
    peopleSection(signins, { account, path: `${path}/signins`, linkPath: `${path}/signin-link`, acts: true, renews: true }, context),
  ];
}

/**
 * The sign-ins of an account. Links for new people are made by `linkPath`, if it is given, and with `renews`
 * for everybody; without `acts` nothing can be done.
 */
export function peopleSection(signins, { account, path, linkPath, acts, renews }, context) {
  const actions = (one) => [
    renews && button("Link", () => askLink(one.name, account, context, one.person), "quiet", { "aria-label": `Sign-in link for ${one.name}` }),
    one.person && button("Remove", () => askRemoval(one, path, context), "quiet red", { "aria-label": `Remove ${one.name}` }),
  ];
  const since = (one) => (one.created ? time(one.created, { day: true })
    : one.link_expires ? ["link until ", time(one.link_expires)] : dim("no password"));
  return section("Who signs in",
    table({
      caption: "Who signs in",
      columns: [
        { label: "Name", class: "wide", cell: (one) => one.name },
        { label: "Since (UTC)", cell: since },
        { label: "Last sign-in (UTC)", cell: (one) => time(one.signed_in, { none: "never" }) },
        { label: "One-time codes", cell: (one) => (one.totp ? "on" : dim("off")) },
        { label: "Sessions", right: true, cell: (one) => count(one.sessions) },
        acts && { label: "Actions", class: "acts", cell: actions },
      ].filter(Boolean),
      rows: signins,
    }),
    acts && linkPath && h("div", { class: "actions" }, button("Let somebody in", () => askNew(account.name, linkPath, context))));
}
