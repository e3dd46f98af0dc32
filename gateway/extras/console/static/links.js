// Links to an account and to a call, and the badges of an account.

import { badge, link } from "./ui.js";

export const accountLink = (name) => link(name, `/console/accounts/${encodeURIComponent(name)}`, "name");

/** A request id, or another label, which leads to the call. */
export const callLink = (id, label = id) => link(label, `/console/activity/${encodeURIComponent(id)}`, "mono");

export const accountBadges = (one) => [one.suspended && badge("suspended", "bad"), one.operator && badge("operator", "good")];
