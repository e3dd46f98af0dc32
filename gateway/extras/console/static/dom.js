// Elements by createElement and text nodes alone: nothing a user wrote is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false || name === "value") continue;
    if (name.startsWith("on")) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  // After the children: a select takes its value from its options.
  if (props?.value !== undefined && props.value !== null) {
    if ("value" in node && node.tagName !== "DATA") node.value = props.value;
    else node.setAttribute("value", props.value);
  }
  return node;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

let ids = 0;

/** An id that no other element has. */
export const newId = (stem) => `${stem}-${++ids}`;

/** Tell screen readers; the eye sees the change itself. */
export function announce(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  requestAnimationFrame(() => { live.textContent = text; });
}
