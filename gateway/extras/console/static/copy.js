// Texts to copy.

import { announce, h, newId } from "./dom.js";
import { button } from "./ui.js";

/** A button that copies and says so, to the eye and to the ear. */
export function copyButton(getText, label = "Copy", kind = "") {
  return button(label, async ({ currentTarget: me }) => {
    const copied = await copyText(getText(), me);
    announce(copied ? "Copied" : "Copying failed: select the text and copy it by hand");
    me.textContent = copied ? "Copied" : "Select it and copy";
    setTimeout(() => { me.textContent = label; }, 2000);
  }, `copy ${kind}`);
}

async function copyText(text, near) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text, near);
  }
}

/** The clipboard API is missing on plain http. The field stands near, for a dialog makes the rest inert. */
function copyBySelection(text, near) {
  const field = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
  near.after(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  near.focus();
  return copied;
}

/** A read-only text that is selected when it gets the focus, with its copy button. */
export function copyField(label, text) {
  const id = newId("copy");
  const field = h("input", { id, class: "mono", readonly: true, value: text, autocomplete: "off", spellcheck: "false" });
  field.addEventListener("focus", () => field.select());
  return h("div", { class: "field" }, h("label", { for: id }, label),
    h("div", { class: "joined" }, field, copyButton(() => text)));
}
