// Try a model: one message by a key, the answer as it arrives, and what it cost. Nothing of it is kept.

import { ApiError, UNREACHABLE } from "./api.js";
import { h } from "./dom.js";
import { form } from "./form.js";
import { exactAmount } from "./format.js";
import { empty, figures, head, link, section } from "./ui.js";

export const tryit = (context) => [
  head("Try it"),
  h("p", { class: "dim" }, "The message goes to the model by a key of yours, which pays for it. Message, answer and key are not stored."),
  context.session.models.some((id) => context.session.kinds[id] === "chat")
    ? section("A message", tryForm(context))
    : empty("There is no model here that answers messages."),
];

/** The form and its answer; without a `secret` it asks for a key. */
export function tryForm({ session, signal, secret, models = session.models }) {
  const answer = h("p", { class: "words", "aria-live": "polite", hidden: true });
  const facts = h("div");
  const chat = models.filter((id) => session.kinds[id] === "chat");
  return [form({
    fields: [
      !secret && { name: "key", label: "Key", class: "mono", required: true, placeholder: "sk-ru-…", spellcheck: "false", hint: "Keys are shown once, when they are made: paste one, or make another under Keys." },
      { name: "model", label: "Model", type: "select", options: chat.map((id) => [id, id]) },
      { name: "message", label: "Message", required: true, value: "Say hello in five words." },
    ].filter(Boolean),
    submit: "Send",
    run: async ({ key = secret, model, message }) => {
      answer.hidden = true;
      facts.replaceChildren();
      const reply = await call(key, "chat/completions", signal, { model, stream: true, messages: [{ role: "user", content: message }] });
      answer.textContent = "";
      answer.hidden = false;
      for await (const text of readTexts(reply)) answer.append(text);
      const id = reply.headers.get("x-request-id");
      facts.replaceChildren(showReceipt(await (await call(key, `receipts/${id}`, signal)).json()));
    },
  }), answer, facts];
}

/** Ask the API as any caller does: by the key alone, without the session. */
async function call(key, path, signal, body) {
  let reply;
  try {
    reply = await fetch(`/v1/${path}`, {
      method: body ? "POST" : "GET", signal, credentials: "omit", cache: "no-store",
      headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(0, UNREACHABLE);
  }
  if (reply.ok) return reply;
  const { error } = await reply.json();
  throw new ApiError(reply.status, { message: error.message, code: error.code, field: error.code === "invalid_api_key" ? "key" : error.param });
}

/** The texts of a stream's events. */
async function* readTexts(reply) {
  let rest = "";
  for await (const bytes of chunks(reply.body.pipeThrough(new TextDecoderStream()))) {
    const lines = (rest + bytes).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const event = JSON.parse(line.slice("data: ".length));
      if (event.error) throw new ApiError(reply.status, event.error);
      yield event.choices?.[0]?.delta?.content ?? "";
    }
  }
}

/** Not every browser can iterate over a stream. */
async function* chunks(stream) {
  const reader = stream.getReader();
  for (let { value, done } = await reader.read(); !done; { value, done } = await reader.read()) yield value;
}

const showReceipt = (receipt) => figures([
  ["Cost", exactAmount(receipt.cost), receipt.estimated && "estimated"],
  ["Tokens", receipt.tokens],
  ["Provider", receipt.provider],
  ["Receipt", link(receipt.request_id, `/console/activity/${receipt.request_id}`, "mono")],
]);
