// The shell: who is signed in, where one is, and the way from page to page.

import { LINKS, OWN_PAGES, PAGES, PARTS } from "./added.js";
import { ApiError, UNREACHABLE, api, get, onSignInAgain, safeNext } from "./api.js";
import { announce, h } from "./dom.js";
import { setCurrency } from "./format.js";
import { signInAgain } from "./signin.js";
import { NAME, brand, button, head, link, notice } from "./ui.js";

const HOLDER = [
  ["/console/", "Overview", "overview"],
  ["/console/keys", "Keys", "keys"],
  ["/console/usage", "Usage", "usage"],
  ["/console/billing", "Billing", "billing"],
  ["/console/activity", "Activity", "activity"],
  ["/console/models", "Models", "models"],
  ...OWN_PAGES,
  ["/console/settings", "Settings", "settings"],
];
const OPERATOR = [
  ["/console/accounts", "Accounts", "accounts"],
  ...PAGES.map((name) => [`/console/${name}`, name[0].toUpperCase() + name.slice(1), name]),
  ["/console/costs", "Costs", "costs"],
  ["/console/providers", "Providers", "observations"],
  ["/console/refusals", "Refusals", "observations"],
  ["/console/health", "Health", "operations"],
  ["/console/audit", "Audit", "audit"],
];
/** Pages of all accounts, which operators see instead of their own account’s, or by a link there. */
const OF_ALL = {
  "/console/": { file: "gateway", page: "gateway", operator: true },
  "/console/billing": { file: "books", page: "books", operator: true },
  ...Object.fromEntries(LINKS.map((name) => [`/console/${name}`, { file: name, page: name, operator: true }])),
};
const SIGN_IN = "/console/signin";

let session = null;
let leaving = new AbortController();
/** What extras add around all pages, from the first one on: `main` tells them by `placed` that another is shown. */
let shell = null;

const main = document.getElementById("main");
const bar = document.getElementById("bar");

/** Done once a click is over, which would be lost with its target. Some releases are told to no page. */
let released = null;
addEventListener("pointerdown", () => {
  released = new Promise((done) => {
    addEventListener("pointerup", () => setTimeout(done), { once: true });
    setTimeout(done, 500);
  });
});

async function go(path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", path);
  await show();
}

function find(path, operator) {
  const account = /^\/console\/accounts\/([^/]+)$/.exec(path);
  if (account) return { file: "account", page: "account", name: decode(account[1]), operator: true };
  const call = /^\/console\/activity\/([^/]+)$/.exec(path);
  if (call) return { file: "call", page: "call", name: decode(call[1]), operator: false };
  const plain = path === "/console" ? "/console/" : path;
  if (operator && OF_ALL[plain]) return OF_ALL[plain];
  const row = [...HOLDER, ...OPERATOR].find(([start]) => start === plain);
  return row && { file: row[2], page: row[1].toLowerCase().replace(" ", ""), operator: OPERATOR.includes(row) };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // No account has such a name, and the page will say so.
  }
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  main.setAttribute("aria-busy", "true");
  try {
    const content = await build(signal);
    await released;
    if (!signal.aborted) place(content);
    if (session) shell ??= parts("shell", { main, bar, build, fail, go, load, leaves: () => leaving.signal }).catch(() => { shell = null; });
  } catch (error) {
    if (!signal.aborted) await fail(error);
  } finally {
    if (!signal.aborted) main.removeAttribute("aria-busy");
  }
}

async function build(signal) {
  const params = new URLSearchParams(location.search);
  if (location.pathname === SIGN_IN) {
    drawBar(null);
    const { signIn } = await load("signin");
    return signIn({ params, done: enter });
  }
  session ??= accept(await get("/session", signal));
  drawBar(session);
  const route = find(location.pathname, session.account.operator);
  if (!route || (route.operator && !session.account.operator)) return missing();
  const pages = await load(route.file);
  return pages[route.page]({ params, session, signal, name: route.name, go, reload: show, place, load, parts, refreshSession });
}

async function load(name) {
  try {
    return await import(`./${name}.js`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new ApiError(0, { ...UNREACHABLE, code: "not_loaded" });
  }
}

/** What extras add to a page, by the page’s context and what it shows. */
async function parts(page, context, view) {
  const scripts = await Promise.all((PARTS[page] ?? []).map(load));
  return Promise.all(scripts.map((script) => script[`${page}Part`](context, view)));
}

/** A module that failed to load may stay missing until the document is loaded anew. */
async function retry(error) {
  if (error.code !== "not_loaded") return show();
  try {
    await get("/session");
  } catch (again) {
    if (again.code === UNREACHABLE.code) return fail(error);
  }
  return location.reload();
}

function accept(value) {
  setCurrency(value.currency);
  return value;
}

async function refreshSession() {
  session = accept(await get("/session"));
}

/** Tells other tabs that their session is somebody else’s now. */
const entries = new BroadcastChannel("session");
entries.onmessage = ({ data }) => { if (session && session.name !== data) location.reload(); };

async function enter(value) {
  session = accept(value);
  entries.postMessage(session.name);
  await go(safeNext(new URLSearchParams(location.search).get("next")), { replace: true });
}

function place(content) {
  // A changed filter keeps the focus; else the title gets it.
  const filter = document.activeElement?.closest(".filters") && document.activeElement.name;
  const before = main.querySelector("h1");
  main.replaceChildren(...[content].flat(9).filter(Boolean));
  const title = main.querySelector("h1");
  document.title = `${title.textContent} · ${NAME}`;
  markHere();
  main.dispatchEvent(new Event("placed"));
  const same = filter && main.querySelector(`.filters [name="${filter}"]`);
  if (same) {
    same.focus({ preventScroll: true });
    return;
  }
  scrollTo(0, 0);
  const first = main.querySelector("[autofocus]");
  if (first) first.focus();
  else if (before) title.focus({ preventScroll: true });
}

const missing = () => [head("Not found"), h("p", null, "There is no such page, or it is not yours to see. "), link("To the overview", "/console/")];

async function fail(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    signedOut();
    return;
  }
  if (error.status === 404) {
    place(missing());
    return;
  }
  const known = error instanceof ApiError;
  place([
    head(!known ? "This page failed" : error.status >= 400 && error.status < 500 ? "That did not work" : "Not available just now"),
    notice("bad", known ? error.message : "Something in this page went wrong. Load it again; if that does not help, tell the operator.",
      error.requestId && h("p", { class: "dim" }, `Request ${error.requestId}`)),
    h("div", { class: "actions" }, button("Try again", () => retry(error), "primary"), location.search && link("Without filters", location.pathname)),
  ]);
  if (!known) throw error;
}

const closeDialogs = () => document.querySelectorAll("dialog").forEach((one) => one.close());

/** To the sign-in, and back to where one was. */
function signedOut() {
  session = null;
  closeDialogs();
  const here = location.pathname + location.search;
  const next = here === "/console/" ? "" : `?next=${encodeURIComponent(here)}`;
  go(SIGN_IN + next, { replace: true });
}

async function signOut() {
  if (session.by_proxy) return place((await load("signin")).signOutElsewhere());
  await api("DELETE", "/session");
  session = null;
  await go(SIGN_IN);
  announce("Signed out");
}

function drawBar(who) {
  if (bar.dataset.for === (who?.name ?? "")) return;
  bar.dataset.for = who?.name ?? "";
  document.body.classList.toggle("out", !who);
  if (!who) {
    bar.replaceChildren();
    return;
  }
  const list = (title, rows) => [
    title && h("p", { class: "group" }, title),
    h("ul", null, rows.map(([path, label]) => h("li", null, link(label, path)))),
  ];
  const nav = h("nav", { id: "nav", "aria-label": "Console" },
    list(null, HOLDER), who.account.operator && list("Operator", OPERATOR),
    h("div", { class: "who" }, h("span", { class: "name" }, who.name), button("Sign out", signOut, "quiet")));
  const menu = button("Menu", () => {
    menu.setAttribute("aria-expanded", nav.classList.toggle("open"));
  }, "menu", { "aria-expanded": "false", "aria-controls": "nav" });
  bar.replaceChildren(h("header", { class: "brand" }, link(brand(), "/console/", "logo"), menu), nav);
}

function markHere() {
  const nav = document.getElementById("nav");
  nav?.classList.remove("open");
  document.querySelector(".menu")?.setAttribute("aria-expanded", "false");
  for (const one of nav?.querySelectorAll("a") ?? []) {
    const path = one.getAttribute("href");
    const here = path === location.pathname || (path !== "/console/" && location.pathname.startsWith(`${path}/`));
    if (here) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
}

document.addEventListener("click", (event) => {
  const target = event.target.closest?.("a");
  if (!target || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (target.classList.contains("skip")) {
    // Without a step of the history, which would show the page anew.
    event.preventDefault();
    main.focus();
    return;
  }
  const url = new URL(target.href);
  const ours = url.origin === location.origin && /^\/console(\/(?!api\/|static\/)|$)/.test(url.pathname);
  if (!ours || target.hasAttribute("download")) return;
  event.preventDefault();
  go(url.pathname + url.search);
});
onSignInAgain((error) => signInAgain(session, error));
addEventListener("popstate", show);
// What was shown once must not come back from the browser's cache.
addEventListener("pagehide", () => {
  closeDialogs();
  main.replaceChildren();
});
addEventListener("pageshow", (event) => { if (event.persisted) show(); });
// Pages that save or search on their own meet the session's end too.
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") event.preventDefault();
  else if (event.reason instanceof ApiError) {
    event.preventDefault();
    fail(event.reason);
  }
});
show();
