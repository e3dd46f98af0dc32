// The dialog of the search: a combobox whose list has what was found, by kind.

import { get, query } from "./api.js";
import { h, newId } from "./dom.js";
import { openDialog } from "./form.js";
import { plural } from "./format.js";

const PAUSE_MS = 150;
const STEPS = { ArrowDown: 1, ArrowUp: -1 };

/** What may be a key or a token: so many letters and digits in a row, or a UUID. Names have dashes and points between. */
const SECRET = /^sk-\S{12}|\w{16}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-/i;

/**
 * Of what may be a secret only the last characters are sent, by which keys and codes are shown: the address of a
 * request is kept in logs. Ids of requests and keys are no secrets.
 */
function withoutSecrets(text) {
  const word = text.replace(/^bearer\s+/i, "");
  if (/^(req|key)_\S+$/.test(word)) return word;
  const code = word.replace(/[\s\-\u2010-\u2015]/g, "");
  if (/^[2-9A-HJ-NP-Z]{16}$/i.test(code)) return code.slice(-4);
  if (/\s/.test(word) || !SECRET.test(word)) return word;
  return `${word.startsWith("sk-") ? "…" : ""}${word.slice(-4)}`;
}

/** The pages of the menu, which needs no request. */
function findPages(bar, text) {
  const found = [...bar.querySelectorAll("nav a")].filter((one) => one.textContent.toLowerCase().includes(text.toLowerCase()));
  return found.length ? [{ kind: "Pages", found: found.slice(0, 5).map((one) => ({ name: one.textContent, note: "", path: one.getAttribute("href") })) }] : [];
}

export function openFinder(bar, go) {
  const list = h("div", { class: "found", role: "listbox", id: newId("found"), "aria-label": "Found" });
  const status = h("p", { class: "hint", role: "status" });
  let options = [];
  let at = -1;
  let asking = new AbortController();
  let searching = null;
  let timer = 0;

  const input = h("input", { "aria-label": "Search",
    class: "finder", type: "search", role: "combobox", "aria-controls": list.id, "aria-expanded": "false",
    "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "Account, key, request id, model, page",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(search, PAUSE_MS);
    },
    onkeydown: (event) => {
      if (STEPS[event.key] && options.length) choose((at + STEPS[event.key] + options.length) % options.length);
      else if (event.key === "Enter") followLatest();
      else if (event.key === "Escape") dialog.close(); // of itself it would only empty the field
      else return;
      event.preventDefault();
    },
  });

  function choose(next) {
    options[at]?.node.setAttribute("aria-selected", "false");
    at = next;
    options[at].node.setAttribute("aria-selected", "true");
    options[at].node.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", options[at].node.id);
  }

  function follow(option) {
    if (!option || !dialog.open) return;
    dialog.close();
    go(option.path);
  }

  /** Whoever types fast presses Enter before what was typed last is searched for, or found. */
  async function followLatest() {
    if (timer) search();
    if (!options.length) await searching;
    follow(options[at]);
  }

  function show(groups, chosen) {
    options = [];
    at = -1;
    input.removeAttribute("aria-activedescendant");
    list.replaceChildren(...groups.map(({ kind, found }) => h("div", { role: "group", "aria-label": kind },
      h("p", { class: "group", "aria-hidden": "true" }, kind),
      found.map(({ name, note, path }) => {
        const option = { path };
        option.node = h("div", { role: "option", id: newId("option"), "aria-selected": "false", onclick: () => follow(option) }, name, note && h("small", null, " ", note));
        options.push(option);
        return option.node;
      }))));
    input.setAttribute("aria-expanded", String(options.length > 0));
    if (options.length) choose(chosen);
  }

  function search() {
    clearTimeout(timer);
    timer = 0;
    searching = look();
  }

  async function look() {
    asking.abort();
    asking = new AbortController();
    const text = input.value.trim();
    const pages = text ? findPages(bar, text) : [];
    show(pages, 0);
    status.textContent = "";
    if (!text) return;
    const { signal } = asking;
    let groups;
    try {
      ({ groups } = await get(`/search${query({ q: withoutSecrets(text) })}`, signal));
    } catch (error) {
      if (error.status === 401) throw error;
      if (!signal.aborted) status.textContent = error.message;
      return;
    }
    if (signal.aborted) return;
    // Pages stay the first, so what was chosen among them stays chosen.
    show([...pages, ...groups], Math.max(at, 0));
    status.textContent = options.length ? `${plural(options.length, "result")}; Enter opens the chosen one.` : `Nothing found.${/^req/.test(text) ? " Request ids need at least 16 characters." : ""}`;
  }

  const dialog = openDialog("Search", () => [input, list, status]);
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asking.abort();
  });
  input.focus();
}
