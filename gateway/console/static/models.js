// What can be called, and what it costs.

import { get } from "./api.js";
import { h } from "./dom.js";
import { count } from "./format.js";
import { badge, code, copyButton, dim, empty, head, table } from "./ui.js";

export async function models({ session, signal }) {
  const list = await get("/models", signal);
  const price = (label, name) => ({ label, money: (model) => (model.free ? null : model.price[name]) });
  const rows = list.models.flatMap((model) => [model, ...model.price_when.map((rule) => ({ ...rule, rule: true }))]);
  const any = (name) => rows.some((row) => row.price?.[`${name}_nano`]);
  const columns = [
    { label: "Model", cell: (model) => model.rule ? dim("when ", model.why) : h("span", { class: "with-copy" }, h("span", null, code(model.id), model.kind === "embedding" && [" ", badge("embeddings")], model.free && [" ", badge("free", "good")], !model.on && [" ", badge("off", "warn")]), copyButton(() => model.id, "Copy", "quiet")) },
    price("Input", "input"), price("Cached", "cached_input"), price("Cache write", "cache_write"), price("Output", "output"),
    any("cache_write_1h") && price("Cache write, 1 h", "cache_write_1h"),
    any("request") && price("Per call", "request"),
    any("web_search") && price("1,000 searches", "web_search"),
    any("audio_input") && price("Audio in", "audio_input"), any("image_input") && price("Images in", "image_input"),
    any("audio_output") && price("Audio out", "audio_output"), any("image_output") && price("Images out", "image_output"),
    rows.some((row) => row.price && Object.keys(row.price.tools).length) && { label: "Tools, per call", cell: (model) => Object.entries(model.price.tools).map(([name, one]) => h("small", null, code(name), " ", one.price)) },
    { label: "Tokens at most", right: true, cell: (model) => !model.rule && [h("small", null, "in ", count(model.max_input_tokens)), model.max_output_tokens > 0 && h("small", null, "out ", count(model.max_output_tokens))] },
    session.account.operator && { label: "Routes, in order", class: "wide", cell: (model) => !model.rule && h("ol", { class: "plain" }, model.routes.map(route)) },
  ];
  return [
    head("Models"),
    h("p", { class: "dim" }, "Prices per million tokens.", session.account.operator && " They are set in gateway.toml."),
    list.count ? table({ caption: "Models and prices", columns: columns.filter(Boolean), rows })
      : empty("No models are offered at the moment. Providers and models are set in gateway.toml."),
  ];
}

const route = ({ provider, model, on }) => h("li", null, code(`${provider}/${model}`), !on && dim(" off"));
