// What can be called, and what it costs.

import { get } from "./api.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { count, fromNano, groupAmount } from "./format.js";
import { badge, code, dim, empty, head, table } from "./ui.js";

/** What few models have: a line each in one column, as columns of their own would make cards of the table. */
const OTHERS = [["cache_write", "Cache write"], ["cache_write_1h", "Cache write, 1 h"], ["request", "Per call"], ["web_search", "1,000 searches"],
  ["audio_input", "Audio in"], ["image_input", "Images in"], ["audio_output", "Audio out"], ["image_output", "Images out"]];

/** Behind a number of input that is no tokens. */
const UNITS = { character: " characters", second: " s" };

export async function models(context) {
  const { signal, session } = context;
  const [list, more] = await Promise.all([get("/models", signal), session.account.operator ? context.parts("models", context) : []]);
  const price = (label, name) => ({ label, exact: true, money: (model) => (applies(model, name) ? model.price[name] : null) });
  const rows = list.models.flatMap((model) => [model, ...model.price_when.map((rule) => ({ ...rule, kind: model.kind, unit: model.unit, rule: true }))]);
  const columns = [
    { label: "Model", class: "wide", cell: (model) => (model.rule ? dim(conditions(model)) : name(model)) },
    price("Input", "input"), price("Cached", "cached_input"), price("Output", "output"),
    rows.some((row) => others(row).length) && { label: "Other prices", cell: showOthers },
    { label: "Tokens at most", right: true, cell: (model) => !model.rule && [h("small", null, "in ", count(model.max_input_tokens), UNITS[model.unit]), model.max_output_tokens > 0 && h("small", null, "out ", count(model.max_output_tokens))] },
    more.length && { label: "Actions", class: "acts", cell: (model) => !model.rule && more.map((show) => show(model.id)) },
  ];
  return [
    head("Models"),
    h("p", { class: "dim" }, "Prices per million tokens, or per million characters where input is counted in them.", session.account.operator && " They are set in gateway.toml."),
    list.count ? table({ caption: "Models and prices", columns: columns.filter(Boolean), rows })
      : empty("No models are offered at the moment. Providers and models are set in gateway.toml."),
  ];
}

/** A model's name and kind; below it its other names and, for operators, its routes in order. */
const name = (model) => h("div", { class: "with-copy" },
  h("div", null, code(model.id), h("small", { class: "badges" }, model.kind !== "chat" && badge(model.kind), model.free && badge("free", "good"), !model.on && badge("off", "warn")),
    model.off_reason && h("small", { class: "words" }, model.off_reason),
    model.aliases.map((alias) => h("small", null, "also ", code(alias))),
    model.routes && h("ol", { class: "plain", "aria-label": "Routes, in order" }, model.routes.map(route))),
  copyButton(() => model.id, "Copy", "quiet"));

/** When a rule holds, in words. */
const conditions = ({ why, input_above: above }) =>
  (above === null ? `when ${why}` : why.replace(`input_above ${above}`, `above ${count(above)} input tokens`));

const route = ({ provider, model, on }) => h("li", null, h("small", { class: "dim" }, "→ ", code(`${provider}/${model}`), !on && " off"));

const talks = (kind) => kind === "chat" || kind === "completion";
const applies = ({ free, kind, unit, price }, name) => !free && unit !== "second" && (talks(kind) || (name !== "cached_input" && price[`${name}_nano`] > 0));

const showOthers = (row) => {
  const found = others(row);
  return found.length ? found.map(([label, value]) => h("small", null, label, " ", groupAmount(value))) : dim("–");
};

/** The prices that are set or apply: a cache's writes cost what input does where nothing else is said. */
function others({ price, free, unit }) {
  if (free) return [];
  // Its input is counted in seconds; its price was rounded down.
  const minute = unit === "second" ? [["Per minute", fromNano((BigInt(price.input_nano) * 60n + 999_999n) / 1_000_000n)]] : [];
  const writes = price.cache_write_nano !== price.input_nano;
  const said = OTHERS.filter(([name]) => price[`${name}_nano`] && (writes || !name.startsWith("cache_write")));
  return [...minute, ...said.map(([name, label]) => [label, price[name]]), ...Object.entries(price.tools).map(([name, one]) => [`${name}, per call`, one.price])];
}
