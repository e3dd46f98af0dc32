// Tabs: one panel, and buttons that choose what is in it.

import { h, newId } from "./dom.js";

export function tabs(label, items) {
  const panel = h("div", { class: "panel", role: "tabpanel", id: newId("panel"), tabindex: "0" });
  const buttons = items.map(([name]) =>
    h("button", { type: "button", role: "tab", id: newId("tab"), "aria-controls": panel.id }, name));
  const choose = (index, focus) => {
    buttons.forEach((one, at) => {
      one.setAttribute("aria-selected", at === index);
      one.tabIndex = at === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[index].id);
    panel.replaceChildren(items[index][1]());
    if (focus) buttons[index].focus();
  };
  const STEPS = { ArrowRight: 1, ArrowLeft: -1 };
  buttons.forEach((one, index) => {
    one.addEventListener("click", () => choose(index));
    one.addEventListener("keydown", (event) => {
      const step = STEPS[event.key];
      if (step) choose((index + step + items.length) % items.length, true);
    });
  });
  choose(0);
  return h("div", null, h("div", { class: "tabs", role: "tablist", "aria-label": label }, buttons), panel);
}
