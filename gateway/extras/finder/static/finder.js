// The search: its button in the bar, and the keys that open it. The dialog is loaded when it is first opened.

import { h } from "./dom.js";

const isMac = /Mac|iPhone|iPad/.test(navigator.platform);

/** Whether somebody types there. */
const isTyping = (node) => node.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(node.nodeName);

export function shellPart({ main, bar, go, load }) {
  const open = async () => {
    if (document.querySelector("dialog[open]") || !bar.querySelector("nav")) return;
    const { openFinder } = await load("finderbox");
    if (!document.querySelector("dialog[open]")) openFinder(bar, go);
  };
  const draw = () => {
    if (bar.querySelector(".find") || !bar.querySelector(".menu")) return;
    bar.querySelector(".menu").before(h("button", { type: "button", class: "find", onclick: open, "aria-keyshortcuts": isMac ? "Meta+K /" : "Control+K /" },
      "Search", h("kbd", { "aria-hidden": "true" }, isMac ? "⌘K" : "Ctrl K")));
  };
  document.addEventListener("keydown", (event) => {
    const isShortcut = event.key.toLowerCase() === "k" && (isMac ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey;
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
    if (!isShortcut && !isSlash) return;
    event.preventDefault();
    open();
  });
  main.addEventListener("placed", draw);
  draw();
}
