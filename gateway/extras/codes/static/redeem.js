// Redeem a top-up code, on the page Billing.

import { api } from "./api.js";
import { form } from "./form.js";
import { amountText } from "./format.js";
import { tell, unsay } from "./ui.js";

export const creditForm = ({ reload }) => form({
  inline: true,
  fields: [{ name: "code", label: "Top-up code", required: true, class: "mono", placeholder: "XXXX-XXXX-XXXX-XXXX", autocapitalize: "characters", spellcheck: "false" }],
  submit: "Redeem",
  run: async (body, idempotencyKey) => {
    unsay();
    const { entry } = await api("POST", "/billing/redeem", { body, idempotencyKey });
    await reload();
    tell("good", `${amountText(entry.amount)} added.`);
  },
});
