// A new key, this once: in this view's elements alone, gone when the view is left.

import { copyButton, copyField } from "./copy.js";
import { h } from "./dom.js";
import { time, writeSetting } from "./format.js";
import { tabs } from "./tabs.js";
import { head, button, notice, section } from "./ui.js";

/** `added`: functions by which extras add to it; `others` has the snippets for models that do not chat. */
export function created({ key, secret, old }, { session, reload, owner }, added, others) {
  const base = session.base_url ?? `${location.origin}/v1`;
  const usable = key.models ?? owner?.models ?? session.models;
  const model = usable.find((id) => session.kinds[id] === "chat") ?? usable[0] ?? "MODEL";
  const kind = session.kinds[model] ?? "chat";
  const snippets = kind === "chat" ? CHAT : others?.SNIPPETS[kind] ?? {};
  return [
    head(old ? "Key rotated" : "Key created"),
    notice("warn", h("strong", null, "Shown once."), " Copy it now", owner && `, for ${owner.name} alone`, ". Lost it? Rotate."),
    section(key.name || "Your key",
      copyField("Key", secret),
      copyField("Base URL", base),
      old && oldKey(old)),
    section("Ready to run", tabs("Snippets", Object.entries(snippets).map(([name, write]) =>
      [name, () => snippet(name, write({ base, secret, model }))]))),
    added.map((show) => show({ key, secret })),
    h("div", { class: "actions" }, button("I stored it", reload, "primary")),
  ];
}

function oldKey(old) {
  const stopped = !old.expires || Date.parse(old.expires) <= Date.now();
  return h("p", null, stopped ? "The old key has stopped working." : ["The old key works until ", time(old.expires), " UTC."]);
}

function snippet(name, text) {
  const copy = copyButton(() => text, "Copy snippet");
  copy.addEventListener("click", () => writeSetting("copied-snippet", "yes"));
  return h("div", { class: "snippet" }, h("pre", { tabindex: "0", "aria-label": `${name} snippet` }, text), copy);
}

const CHAT = {
  OpenAI: ({ base, secret, model }) => `from openai import OpenAI

client = OpenAI(
    base_url="${base}",
    api_key="${secret}",
)
reply = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(reply.choices[0].message.content)`,
  Anthropic: ({ base, secret, model }) => `from anthropic import Anthropic

client = Anthropic(
    base_url="${base.replace(/\/v1$/, "")}",
    api_key="${secret}",
)
reply = client.messages.create(
    model="${model}",
    max_tokens=256,
    messages=[{"role": "user", "content": "Hello"}],
)
print(reply.content[0].text)`,
  "Claude Code": ({ base, secret, model }) => `export ANTHROPIC_BASE_URL=${base.replace(/\/v1$/, "")}
export ANTHROPIC_AUTH_TOKEN=${secret}
export ANTHROPIC_MODEL="${model}"
export ANTHROPIC_DEFAULT_OPUS_MODEL="${model}"
export ANTHROPIC_DEFAULT_SONNET_MODEL="${model}"
export ANTHROPIC_DEFAULT_HAIKU_MODEL="${model}"
claude`,
  Codex: ({ base, secret, model }) => `# export GATEWAY_KEY=${secret}
# ~/.codex/config.toml:
model = "${model}"
model_provider = "gateway"

[model_providers.gateway]
name = "Gateway"
base_url = "${base}"
env_key = "GATEWAY_KEY"
wire_api = "responses"`,
  curl: ({ base, secret, model }) => `curl ${base}/chat/completions \\
  -H "Authorization: Bearer ${secret}" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Hello"}]}'`,
};
