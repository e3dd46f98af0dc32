// Try a model: a conversation by a key, each answer as it arrives, and what it cost. Nothing of it is stored.

import { get } from "./api.js";
import { asCode } from "./ascode.js";
import { announce, h, newId } from "./dom.js";
import { exchange, readReceipt } from "./exchange.js";
import { exactAmount } from "./format.js";
import { button, empty, head, link, notice, section } from "./ui.js";

const EFFORTS = ["minimal", "low", "medium", "high"];
/** What to do about an error, where its message does not say it. */
const ADVICE = {
  invalid_api_key: ["Paste a key of yours that works, or make one under ", link("Keys", "/console/keys"), "."],
  insufficient_quota: ["More credit is under ", link("Billing", "/console/billing"), ", and caps are under ", link("Keys", "/console/keys"), "."],
};
const styled = new Promise((done) => {
  document.head.append(h("link", { rel: "stylesheet", href: "/console/static/playground.css", onload: done, onerror: done }));
});

export async function tryit(context) {
  const [{ models }] = await Promise.all([get("/playground", context.signal), styled]);
  return [
    head("Try it"),
    h("p", { class: "dim" }, "The conversation goes to the model by a key of yours, which pays for it. Nothing of it is stored, and it is gone when you leave this page."),
    models.length ? playground(context, { models }) : empty("There is no model here that answers messages."),
  ];
}

/** What shows a new key gets this before the key is made: then it tries the key at once. */
export async function newkeyPart(context) {
  // Trying another's key would spend another's money.
  if (context.owner) return () => null;
  const [{ models }] = await Promise.all([get("/playground", context.signal), styled]);
  return ({ key, secret }) => {
    const usable = models.filter((model) => !key.models || key.models.includes(model.id));
    return usable.length > 0 && section("Try it", playground(context, { models: usable, secret }));
  };
}

function playground({ session, signal }, { models, secret }) {
  const controls = makeControls(models, secret);
  const turns = h("ol", { class: "plain turns", tabindex: "0", "aria-label": "Conversation" });
  const send = h("button", { class: "primary", title: "Ctrl+Enter, ⌘+Enter" }, "Send");
  const stop = button("Stop", () => running.abort(), "", { hidden: true });
  const fresh = button("New conversation", begin, "", { hidden: true });
  const code = asCode();
  const folded = h("details", { ontoggle: drawCode }, h("summary", null, "The same request as curl, Python, JavaScript"), code.node);
  const { message } = controls.inputs;
  let said = [];
  let running = null;

  const form = h("form", { class: "playground" },
    h("div", { class: "stack" }, controls.nodes),
    h("div", { class: "stack" }, turns, controls.message, h("div", { class: "actions" }, send, stop, fresh, h("span", { class: "dim" }, "Ctrl+Enter or ⌘+Enter sends")), folded));
  form.addEventListener("input", drawCode);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (running) return;
    const turn = { asked: message.value.trim(), answer: "", node: h("li") };
    said.at(-1)?.again?.remove();
    said.push(turn);
    turns.append(turn.node);
    message.value = "";
    answer(turn);
  });
  signal.addEventListener("abort", () => running?.abort());
  turns.hidden = true;
  return form;

  function begin() {
    said = [];
    turns.replaceChildren();
    turns.hidden = fresh.hidden = true;
    drawCode();
    message.focus();
  }

  /** The request for a turn: what was said before it, where something was answered, and the turn. */
  function makeBody(asked, before) {
    const { system, ...rest } = controls.read();
    const messages = before.filter((one) => one.answer)
      .flatMap((one) => [{ role: "user", content: one.asked }, { role: "assistant", content: one.answer }]);
    return { ...rest, messages: [...(system ? [{ role: "system", content: system }] : []), ...messages, { role: "user", content: asked }] };
  }

  function drawCode() {
    if (!folded.open) return;
    const typed = message.value.trim();
    const body = typed || !said.length ? makeBody(typed || "Hello", said) : makeBody(said.at(-1).asked, said.slice(0, -1));
    code.draw(session.base_url ?? `${location.origin}/v1`, body);
  }

  async function answer(turn) {
    const key = secret ?? controls.inputs.key.value.trim();
    const text = h("p", { class: "words answer", "aria-live": "polite", "aria-busy": "true" });
    const facts = h("p", { class: "dim facts" }, "Sent …");
    turn.answer = "";
    turn.node.replaceChildren(h("p", { class: "words asked" }, h("span", { class: "unseen" }, "You: "), turn.asked), text, facts);
    running = new AbortController();
    const body = makeBody(turn.asked, said.slice(0, said.indexOf(turn)));
    mark(true);
    drawCode();
    follow(turns, true);
    const told = await exchange(key, body, running.signal, (piece) => {
      const near = isNear(turns);
      turn.answer += piece;
      text.append(piece);
      follow(turns, near);
    });
    running = null;
    if (signal.aborted) return;
    mark(false);
    text.removeAttribute("aria-busy");
    const near = isNear(turns);
    facts.textContent = "";
    const isWrong = told.error?.code === "invalid_api_key";
    controls.blame(isWrong);
    if (told.error) turn.node.append(showFailure(told, turn, text));
    else announce("Answered");
    follow(turns, near);
    // Who types the next message meanwhile goes on.
    if (isWrong && controls.inputs.key) controls.inputs.key.focus();
    else if (!turn.again || !message.value) (turn.again ?? message).focus();
    const receipt = told.id && !(told.error?.status >= 400) ? await readReceipt(key, told.id, signal) : null;
    facts.replaceChildren(...showFacts(told, receipt));
    facts.hidden = told.first === null && !receipt;
    follow(turns, near);
  }

  function showFailure(told, turn, text) {
    const { error } = told;
    const stopped = error.name === "AbortError";
    turn.again = button("Send again", () => {
      turn.again = null;
      answer(turn);
    });
    text.hidden = !turn.answer;
    if (stopped) {
      return h("p", null, "Stopped here; the model goes on and is charged in full",
        told.id ? [": see the ", link("receipt", `/console/activity/${told.id}`), "."] : ": the receipt is under Activity.", " ", turn.again);
    }
    return notice("bad", h("p", null, error.message, " ", ADVICE[error.code]), told.id && h("p", { class: "dim" }, "Request ", told.id), turn.again);
  }

  function mark(busy) {
    // A button that goes away must not take the focus along.
    const held = [send, document.body].includes(document.activeElement);
    stop.hidden = !busy;
    if (busy && held) stop.focus();
    send.disabled = busy;
    turns.hidden = false;
    fresh.hidden = busy;
  }
}

/** Whether the end of the conversation is in view: then it stays there. */
const isNear = (box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40;

function follow(box, near) {
  if (near) box.scrollTop = box.scrollHeight;
}

function showFacts(told, receipt) {
  const after = (ms) => `${(ms / 1000).toFixed(2)} s`;
  const times = told.first === null ? `after ${after(told.total)}` : `first byte ${after(told.first)}, all ${after(told.total)}`;
  const isPending = receipt?.state === "pending";
  // A stopped call has no figures until the model is done.
  const figures = !(isPending && told.error?.name === "AbortError") && receipt;
  const facts = [
    figures && [exactAmount(receipt.cost), isPending && " so far", receipt.estimated && " estimated"],
    figures && `${receipt.tokens}${told.reasoning ? `, of these reasoning ${told.reasoning}` : ""}`,
    times,
    told.finish === "length" && "cut off at the limit of tokens",
    receipt && link(told.id, `/console/activity/${told.id}`, "mono"),
  ];
  return facts.filter(Boolean).flatMap((fact, at) => [at ? " · " : "", fact]).flat(9).filter(Boolean);
}

/** The fields, and what is read of them; what is left empty is not sent. */
function makeControls(models, secret) {
  const inputs = {};
  const field = (name, label, tag, props, hint, ...children) => {
    const id = newId(name);
    inputs[name] = h(tag, { id, autocomplete: "off", "aria-describedby": hint && `${id}-hint`, ...props }, ...children);
    return h("div", { class: props?.type === "checkbox" ? "field check" : "field" }, h("label", { for: id }, label), inputs[name], hint && h("p", { id: `${id}-hint`, class: "hint" }, hint));
  };
  const option = (value, label = value) => h("option", { value }, label);
  const first = models.find((model) => !model.demo) ?? models[0];
  const effort = field("effort", "Reasoning effort", "select", null, null, option("", "not sent"), EFFORTS.map((one) => option(one)));
  const nodes = [
    !secret && field("key", "Key", "input", { class: "mono", required: true, oninput: ({ target }) => blame(target, false), placeholder: "sk-ru-…", spellcheck: "false" }, ["Keys are shown once, when they are made: paste one, or ", link("make another", "/console/keys?new=1"), "."]),
    field("model", "Model", "select", { value: first.id, onchange: fit }, null, models.map((model) => option(model.id))),
    field("system", "System prompt", "textarea", { rows: "2" }),
    h("details", null, h("summary", null, "Settings"), h("div", { class: "stack" },
      field("stream", "Stream", "input", { type: "checkbox", checked: true }),
      field("temperature", "Temperature", "input", { type: "number", min: "0", max: "2", step: "any" }, "Empty: not sent."),
      field("max_tokens", "Max tokens", "input", { type: "number", min: "1", step: "1" }, "Empty: not sent."),
      effort)),
  ].filter(Boolean);
  const message = field("message", "Message", "textarea", { rows: "3", required: true, value: "Say hello in five words." });
  function fit() {
    effort.hidden = !models.find((model) => model.id === inputs.model.value).reasoning_effort;
  }
  fit();
  return { inputs, nodes, message, read: () => readControls(inputs, effort.hidden), blame: (wrong) => blame(inputs.key, wrong) };
}

function blame(key, wrong) {
  if (wrong) key?.setAttribute("aria-invalid", "true");
  else key?.removeAttribute("aria-invalid");
}

const readControls = ({ model, system, stream, temperature, max_tokens: most, effort }, plain) => ({
  system: system.value.trim(),
  model: model.value,
  ...(temperature.value && { temperature: Number(temperature.value) }),
  ...(most.value && { max_tokens: Number(most.value) }),
  ...(!plain && effort.value && { reasoning_effort: effort.value }),
  ...(stream.checked && { stream: true, stream_options: { include_usage: true } }),
});
