// Merge a page that was built anew into the one that is shown: what is the same stays, with its focus and state.
//
// Sections, rows and the like are paired by their names, the others in their order.
// Nothing that somebody has in hand is removed or replaced: what has the focus, selected text, a form that is being
// filled, a chart under the pointer. It stays as it was until a later renewal.

/** They belong together with what their functions know, so they stay as they are, or become new as a whole. */
const WHOLE = "form, figure, dialog";
/** What others put into the page. */
const APART = ".live, .told";
/** By what elements of a kind are told apart. */
const NAMES = { SECTION: "h2", TR: "th[scope=row]", DIV: "caption, dt", DETAILS: "summary" };
/** Attributes with ids, which are numbered anew each time that a page is built. */
const IDS = new Set(["id", "for", "aria-controls", "aria-describedby", "aria-labelledby"]);
/** What people, and scripts after them, change in a page that is shown. */
const OWN = { DETAILS: ["open"], DIV: ["class"] };
const HANDLERS = ["onclick", "onchange", "oninput", "onsubmit", "onkeydown", "ontoggle"];

const touched = new WeakSet();

/** Note that somebody fills in a form. */
export const touch = ({ target }) => { if (target.form) touched.add(target.form); };

const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;

const isApart = (node) => isElement(node) && node.matches(APART);

function isSelected(node) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

const isHeld = (node) => node.contains(document.activeElement) || isSelected(node) || touched.has(node)
  || (node.nodeName === "FIGURE" && node.matches(":hover"));

function keyOf(node) {
  const name = NAMES[node.nodeName];
  return name ? `${node.nodeName} ${node.querySelector(name)?.textContent ?? ""}` : node.nodeName;
}

const stem = (value) => value?.replace(/-\d+(?=$|-)/, "");

export function merge(parent, fresh) {
  const active = document.activeElement;
  const row = [...parent.querySelectorAll(".head, tbody tr, h2")].find((one) => one.getBoundingClientRect().bottom > 0);
  const before = row?.getBoundingClientRect().top;
  mergeChildren(parent, fresh);
  // What is read, or about to be pressed, stays where it is.
  if (row?.isConnected) scrollBy({ top: row.getBoundingClientRect().top - before, behavior: "instant" });
  // What was moved to another place has lost it.
  if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
}

function mergeChildren(parent, fresh) {
  const shown = new Map();
  for (const node of parent.childNodes) {
    if (!isApart(node)) shown.set(keyOf(node), [...(shown.get(keyOf(node)) ?? []), node]);
  }
  const pairs = fresh.filter((next) => !isApart(next)).map((next) => [shown.get(keyOf(next))?.shift(), next]);
  for (const node of [...shown.values()].flat()) if (!isHeld(node)) node.remove();
  const paired = new Set(pairs.map(([old]) => old));
  let place = parent.firstChild;
  for (const [old, next] of pairs) {
    while (place && !paired.has(place)) place = place.nextSibling;
    const node = old ? mergeNode(old, next) : next;
    if (old && old === place) place = place.nextSibling;
    else parent.insertBefore(old ?? next, place);
    if (old && old !== node) old.replaceWith(node);
  }
}

/** Returns the node that is shown from now on. */
function mergeNode(old, next) {
  if (!isElement(old)) {
    if (old.data !== next.data && !isSelected(old)) old.data = next.data;
    return old;
  }
  if (old.matches(WHOLE)) return isHeld(old) || isSame(old, next) ? old : next;
  mergeAttributes(old, next);
  for (const name of HANDLERS) old[name] = next[name];
  mergeChildren(old, [...next.childNodes]);
  return old;
}

function mergeAttributes(old, next) {
  for (const { name, value } of [...next.attributes]) if (differs(old, next, name)) old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) if (!next.hasAttribute(name) && differs(old, next, name)) old.removeAttribute(name);
}

function differs(old, next, name) {
  const [before, after] = [old.getAttribute(name), next.getAttribute(name)];
  if (before === after || OWN[old.nodeName]?.includes(name) && (name === "open" || old.matches(".scroll"))) return false;
  return !IDS.has(name) || stem(before) !== stem(after);
}

/** Whether they look the same. A chart draws itself, and what its bars are read out as is not in it. */
function isSame(old, next) {
  if (old.nodeName === "FIGURE" || old.nodeName !== next.nodeName) return false;
  if (!isElement(old)) return old.data === next.data;
  const names = new Set([...old.attributes, ...next.attributes].map(({ name }) => name));
  return old.childNodes.length === next.childNodes.length && ![...names].some((name) => differs(old, next, name))
    && [...old.childNodes].every((child, at) => isSame(child, next.childNodes[at]));
}
