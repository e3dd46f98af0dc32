// Forms: labelled fields, errors by their field and in a summary on top, dialogs that ask first.

import { ApiError, newIdempotencyKey } from "./api.js";
import { h, newId } from "./dom.js";
import { button } from "./ui.js";

/**
 * A form of `fields` ({name, label, hint?, type?, value?, options?, third?, …attributes}); thirds stand in a row.
 *
 * `run(values, idempotencyKey)` does it. The key stays the same until something is changed, so a
 * second click, or a try after a lost answer, has no second effect.
 */
export function form({ fields = [], submit, danger, run, cancel, inline }) {
  const controls = fields.map(buildField);
  const summary = h("div", { class: "notice bad", role: "alert", tabindex: "-1", hidden: true });
  const send = h("button", { class: danger ? "danger" : "primary" }, submit);
  const node = h("form", { class: inline ? "inline" : null },
    summary, controls.map((control) => control.node),
    h("div", { class: "actions" }, send, cancel && button("Cancel", cancel)));
  let key = newIdempotencyKey();
  node.addEventListener("input", () => { key = newIdempotencyKey(); });
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return;
    send.disabled = true;
    clearErrors(summary, controls);
    try {
      await run(Object.fromEntries(controls.map((control) => [control.name, control.read()])), key);
      key = newIdempotencyKey();
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === "not_signed_in") throw error;
      showError(error, summary, controls);
    } finally {
      send.disabled = false;
    }
  });
  return node;
}

function clearErrors(summary, controls) {
  summary.hidden = true;
  for (const control of controls) control.fail("");
}

function showError(error, summary, controls) {
  const control = controls.find((one) => one.name === error.field);
  control?.fail(error.message);
  summary.replaceChildren(
    control ? h("a", { href: `#${control.id}`, onclick: (event) => { event.preventDefault(); control.focus(); } }, error.message) : error.message);
  summary.hidden = false;
  summary.focus();
}

function buildField({ name, label, hint, type = "text", value, options, third, ...more }) {
  const id = newId(name);
  const hintId = hint && `${id}-hint`;
  const error = h("p", { id: `${id}-error`, class: "wrong", hidden: true });
  const described = [hintId, error.id].filter(Boolean).join(" ");
  const { input, read } = MAKERS[type]?.({ id, name, options, value, ...more }) ?? makeInput({ id, name, type, value, ...more });
  input.setAttribute("aria-describedby", described);
  const grouped = type === "checks";
  const title = h(grouped ? "legend" : "label", grouped ? null : { for: id }, label);
  const notes = [hint && h("p", { id: hintId, class: "hint" }, hint), error];
  const node = grouped ? input : h("div", { class: type === "checkbox" ? "field check" : third ? "field third" : "field" }, title, input, notes);
  if (grouped) {
    input.prepend(title);
    input.append(...notes.filter(Boolean));
  }
  const fail = (text) => {
    error.textContent = text;
    error.hidden = !text;
    if (text) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  return { name, id, node, read, fail, focus: () => (input.querySelector("input") ?? input).focus() };
}

function makeInput({ type, ...props }) {
  const input = h("input", { type, autocomplete: "off", ...props });
  return { input, read: () => (type === "password" ? input.value : input.value.trim()) };
}

const MAKERS = {
  select: ({ options, ...props }) => {
    const input = h("select", props, options.map(([value, label]) => h("option", { value }, label)));
    if (props.value !== undefined) input.value = props.value;
    return { input, read: () => input.value };
  },
  checkbox: ({ value, ...props }) => {
    const input = h("input", { type: "checkbox", checked: value, ...props });
    return { input, read: () => input.checked };
  },
  checks: ({ id, options, value = [] }) => {
    const boxes = options.map((one) => h("input", { type: "checkbox", value: one, checked: value.includes(one) }));
    const input = h("fieldset", { id, class: "field" },
      h("div", { class: "checks" }, boxes.map((box) => h("label", null, box, " ", h("span", null, box.value)))));
    return { input, read: () => boxes.filter((box) => box.checked).map((box) => box.value) };
  },
};

/** Content in a modal dialog, which is returned; it leaves the document when it is closed. */
export function openDialog(title, makeContent) {
  const id = newId("dialog");
  const dialog = h("dialog", { "aria-labelledby": id });
  const close = () => dialog.close();
  dialog.append(h("h2", { id }, title), ...[makeContent(close)].flat().filter(Boolean));
  dialog.addEventListener("close", () => dialog.remove());
  // A page that is left takes its dialogs along.
  addEventListener("popstate", close, { once: true });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Ask in a dialog; it closes when `run` succeeded, and stays with the error when it did not. */
export function ask({ title, intro, fields, submit, danger, run }) {
  openDialog(title, (close) => [
    intro && h("p", null, intro),
    form({
      fields, submit, danger, cancel: close,
      run: async (values, key) => {
        const after = await run(values, key);
        close();
        after?.();
      },
    }),
  ]);
}

/** So many filters are folded on phones, unless one of them is set. */
const FOLDED = 3;

/** Filters that live in the URL: a change shows at once and is a step of the history. */
export function filters(fields, onchange) {
  const controls = fields.map(buildField);
  let shown = location.href;
  const apply = () => {
    // Chromium also tells of a field that goes with its page.
    if (location.href !== shown) return;
    const params = new URLSearchParams(location.search);
    params.delete("cursor");
    for (const { name, read } of controls) {
      if (read()) params.set(name, read());
      else params.delete(name);
    }
    const target = `${location.pathname}?${params}`;
    if (target === location.pathname + location.search) return;
    history.pushState(null, "", target);
    shown = location.href;
    onchange();
  };
  const here = new URLSearchParams(location.search);
  const open = fields.length < FOLDED || fields.some(({ name }) => here.has(name));
  const id = newId("filters");
  const fold = button("Filters", () => fold.setAttribute("aria-expanded", node.classList.toggle("open")), "fold", { "aria-expanded": String(open), "aria-controls": id });
  // Each digit makes another date: a typed one counts once its field is left.
  let typing = false;
  let waits = false;
  const node = h("form", {
    id, class: open ? "filters open" : "filters", role: "search",
    onkeydown: ({ target }) => { typing = target.type === "date"; },
    onpointerdown: () => { typing = false; },
    onchange: () => {
      waits = typing;
      if (!waits) apply();
    },
  }, controls.map((control) => control.node), h("button", { class: "unseen", tabindex: "-1" }, "Apply"));
  node.addEventListener("focusout", () => {
    if (waits) apply();
    waits = false;
  });
  node.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  return fields.length < FOLDED ? node : [fold, node];
}
