// Operators: models and providers are switched off and on, by a button in their rows. What is off stands on Health.

import { api, get } from "./api.js";
import { announce, h } from "./dom.js";
import { ask } from "./form.js";
import { time } from "./format.js";
import { button, code, section, table } from "./ui.js";

const change = async (way, body, reload) => {
  await api("POST", `/switches/${way}`, { body });
  return async () => {
    const top = scrollY;
    await reload();
    // Wide tables become cards, which are higher, once the page is drawn.
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    scrollTo({ top, behavior: "instant" });
    const labels = ["off", "on"].map((one) => `Switch ${body.kind} ${body.name} ${one}`);
    [...document.querySelectorAll("button")].find((one) => labels.includes(one.ariaLabel))?.focus({ preventScroll: true });
    announce(`${body.name} is switched ${way}`);
  };
};

const INTROS = {
  model: "Callers get the error of an unknown model at once, until it is switched on again. Calls in flight end normally, and gateway.toml stays as it is.",
  provider: "Calls go to the other routes of its models at once; models without one are off, until it is switched on again. Calls in flight end normally, and gateway.toml stays as it is.",
};

const askOff = (kind, name, reload) => ask({
  title: `Switch ${kind} ${name} off?`,
  intro: INTROS[kind],
  fields: [{ name: "note", label: "Why", maxlength: 500, hint: "For other operators; callers don’t see it." }],
  submit: "Switch off",
  danger: true,
  run: ({ note }) => change("off", { kind, name, ...(note && { note }) }, reload),
});

const onButton = ({ kind, name }, reload) => button("Switch on", async () => (await change("on", { kind, name }, reload))(), "quiet", { "aria-label": `Switch ${kind} ${name} on` });
const offButton = (kind, name, reload) => button("Switch off", () => askOff(kind, name, reload), "quiet", { "aria-label": `Switch ${kind} ${name} off` });

/** Returns the button of a row, by its name; the page says why something is off. */
async function rowButton(kind, { signal, reload }) {
  const { switches } = await get("/switches", signal);
  return (name) => (switches.some((one) => one.kind === kind && one.name === name) ? onButton({ kind, name }, reload) : offButton(kind, name, reload));
}

export const modelsPart = (context) => rowButton("model", context);
export const providersPart = (context) => rowButton("provider", context);

export async function healthPart({ signal, reload }) {
  const { switches } = await get("/switches", signal);
  return switches.length > 0 && section("Switched off", table({
    caption: "Models and providers that are switched off",
    columns: [
      { label: "Name", cell: (one) => [one.kind, " ", code(one.name), !one.in_file && h("small", null, "no effect: gateway.toml does not have it")] },
      { label: "Since (UTC)", cell: (one) => [time(one.since, { brief: true }), h("small", null, "by ", one.by)] },
      { label: "Why", class: "wide", cell: (one) => one.note || "–" },
      { label: "Actions", class: "acts", cell: (one) => onButton(one, reload) },
    ],
    rows: switches,
  }));
}
