// Credit bought by card: the way to the payment page, and what became of an order.

import { api, get } from "./api.js";
import { h } from "./dom.js";
import { amountText, count, groupAmount } from "./format.js";
import { form } from "./form.js";
import { button, link, section, tell } from "./ui.js";

const WAITS = [1000, 2000, 3000, 5000, 10000];
const ENDS = {
  paid: ["good", (order) => `The payment has arrived: ${amountText(order.amount)} added.`],
  refunded: ["", () => "This payment was given back."],
  failed: ["bad", () => "The payment failed, and nothing was added. Try again, or ask the operator."],
  expired: ["", () => "Nothing was paid in time, and nothing was added."],
};

export function billingPart(context, { cards }) {
  const order = context.params.get("order");
  // Behind this page, which it writes on.
  if (cards && order) setTimeout(() => follow(order, context));
  return cards && payCard(cards);
}

/** Operators: to the payments of all accounts, where there may be some. */
export const booksPart = (_, { own, statement }) =>
  (own.cards || statement.totals.cards_nano !== 0) && link("Card payments", "/console/orders", "button");

/** What the payment provider took, which is no part of the table: it belongs to credits, not to calls. */
export const costsPart = (_, { card_fees: fees, card_fees_unknown: unknown }) => (fees.length > 0 || unknown > 0) && h("p", null, "Card fees: ", [
  ...fees.map(({ fee, currency, orders }) => `${groupAmount(fee)} ${currency} (${payments(orders)})`),
  ...(unknown ? [`not known for ${payments(unknown)}`] : []),
].join(", "), ".");

const payments = (number) => (number === 1 ? "1 payment" : `${count(number)} payments`);

function payCard({ amounts, minimum, maximum }) {
  const pay = form({
    fields: [{
      name: "amount", label: "Amount", required: true, inputmode: "decimal", value: amounts[0],
      hint: `From ${amountText(minimum)} to ${amountText(maximum)}. You pay at Stripe, and come back here.`,
    }],
    submit: payText(amounts[0]),
    run: async (body, idempotencyKey) => {
      const { url } = await api("POST", "/billing/orders", { body, idempotencyKey });
      location.assign(url);
    },
  });
  const { amount } = pay.elements;
  pay.addEventListener("input", () => { pay.querySelector(".primary").textContent = payText(amount.value); });
  const choose = (chosen) => {
    amount.value = chosen;
    amount.dispatchEvent(new Event("input", { bubbles: true }));
    amount.focus();
  };
  return section("Top up by card",
    h("div", { class: "actions" }, amounts.map((amount) => button(amountText(amount), () => choose(amount)))), pay);
}

const payText = (amount) => (/^\d+(\.\d+)?$/.test(amount) ? `Pay ${amountText(amount)}` : "Pay by card");

/** Tell what became of the order that the address names, once its page is shown; wait while it is open. */
async function follow(id, { signal, go }) {
  let order;
  for (let turn = 0; ; turn += 1) {
    try {
      ({ order } = await get(`/billing/orders/${encodeURIComponent(id)}`, signal));
    } catch (error) {
      if (signal.aborted || error.code === "not_found") return;
      if (error.code === "not_signed_in") throw error;
    }
    if (signal.aborted) return;
    if (order && order.state !== "made") break;
    if (turn === 0) tell("", "Waiting for the payment. It can take a minute; some kinds take days.");
    await new Promise((done) => { setTimeout(done, WAITS[Math.min(turn, WAITS.length - 1)]); });
    if (signal.aborted) return;
  }
  // Without the order, so that the same is not told again when the page is loaded anew.
  await go("/console/billing", { replace: true });
  const [kind, words] = ENDS[order.state];
  tell(kind, words(order));
}
