// Stacked bars as SVG. The table under it is the alternative; its title is the conclusion.

import { h, newId, svg } from "./dom.js";

const HEIGHT = 220;
const TOP = 28;
const BOTTOM = 24;
const GAP = 8;
const TICKS = 4;
export const MAX_SERIES = 8;

/** A round step of at least what can be counted, and how many decimals it needs. */
function chooseStep(max, least) {
  const rough = Math.max(least, max / TICKS);
  const power = Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * 10 ** power >= rough * 0.999) * 10 ** power;
  return { step, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** Hatches and dots tell series apart where colours do not. */
function patterns(prefix) {
  const shapes = { 2: "M0 6L6 0", 3: "M3 0V6", 4: "M0 3H6", 6: "M0 0L6 6", 7: "M0 6L6 0M0 0L6 6", 8: "M2 2h2v2h-2z" };
  return svg("defs", null, Object.entries(shapes).map(([index, d]) =>
    svg("pattern", { id: `${prefix}-${index}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
      svg("rect", { width: 6, height: 6, class: `s${index}` }), svg("path", { d, class: "hatch" }))));
}

const HATCHED = new Set([2, 3, 4, 6, 7, 8]);

function paint(rect, prefix, index) {
  rect.setAttribute("class", `s${index}`);
  if (HATCHED.has(index)) rect.setAttribute("fill", `url(#${prefix}-${index})`);
  rect.classList.toggle("plain", !HATCHED.has(index));
  return rect;
}

/**
 * `unit`: that of the values, at the top of the axis.
 * `slots`: [{label, values: numbers by series, text}], in order; `text` is read out on hover.
 * `least` is the smallest difference between values: a nano-unit, or one.
 * `series`: [{name, text or an element}], the first at the bottom; without them the bars are of one kind.
 */
export function chart({ title, unit, slots, series = [], least = 1e-9, emptyText }) {
  const prefix = newId("hatch");
  const readout = h("span", { class: "readout", "aria-hidden": "true" }, "\u00a0");
  const box = h("div", { class: "plot" });
  const draw = () => {
    if (box.clientWidth) drawBars({ box, title, unit, slots, least, prefix, readout });
  };
  new ResizeObserver(draw).observe(box);
  return h("figure", { class: "chart" },
    h("figcaption", null, title, readout),
    box,
    emptyText && h("p", { class: "none" }, emptyText),
    series.length > 0 && h("ul", { class: "legend" }, series.map(({ name, text }, index) =>
      h("li", null, swatch(prefix, index + 1), h("span", null, name), h("b", null, text)))));
}

const swatch = (prefix, index) =>
  svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, paint(svg("rect", { width: 12, height: 12, rx: 2 }), prefix, index));

function drawBars({ box, title, unit, slots, least, prefix, readout }) {
  const titleId = newId("chart");
  const width = box.clientWidth;
  const totals = slots.map(({ values }) => values.reduce((sum, value) => sum + value, 0));
  const { step, decimals } = chooseStep(Math.max(...totals) || 1, least);
  const top = Math.max(1, Math.ceil(Math.max(...totals) / step - 1e-9)) * step;
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const root = svg("svg", { role: "img", "aria-labelledby": titleId, width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` },
    svg("title", { id: titleId }, title), patterns(prefix));
  box.replaceChildren(root);
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => at * step);
  const left = drawTicks(root, ticks.map((value) => [tickText(value, decimals), y(value)]), width);
  root.append(svg("text", { y: 12, "aria-hidden": "true" }, unit));
  const slotWidth = (width - left) / slots.length;
  slots.forEach((slot, at) => root.append(...stack(slot, left + at * slotWidth, slotWidth, y, prefix)));
  root.append(...dayLabels(slots, left, slotWidth, width));
  const mark = svg("rect", { class: "mark", y: TOP, height: HEIGHT - TOP - BOTTOM, width: slotWidth, visibility: "hidden" });
  root.append(mark);
  root.addEventListener("pointermove", (event) => {
    const at = Math.floor((event.clientX - root.getBoundingClientRect().left - left) / slotWidth);
    mark.setAttribute("visibility", slots[at] ? "visible" : "hidden");
    mark.setAttribute("x", left + at * slotWidth);
    readout.textContent = slots[at]?.text ?? "\u00a0";
  });
  root.addEventListener("pointerleave", () => {
    mark.setAttribute("visibility", "hidden");
    readout.textContent = "\u00a0";
  });
}

/** Draw the lines of the grid and their values; return where the bars begin: behind the longest value. */
function drawTicks(root, ticks, width) {
  const texts = ticks.map(([text, y]) => svg("text", { y: y + 4, "text-anchor": "end", "aria-hidden": "true" }, text));
  root.append(...texts);
  const end = Math.ceil(Math.max(...texts.map((text) => text.getComputedTextLength())));
  for (const text of texts) text.setAttribute("x", end);
  root.append(...ticks.map(([, y]) => svg("line", { class: "grid", x1: end + GAP, x2: width, y1: y, y2: y })));
  return end + GAP;
}

function tickText(value, decimals) {
  const unit = decimals ? null : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]].find(([size]) => value >= size);
  if (!unit) return value.toFixed(decimals);
  const scale = unit[1] === "k" ? 1e3 : unit[0];
  return `${Number((value / scale).toFixed(2))} ${unit[1]}`;
}

function stack(slot, x, slotWidth, y, prefix) {
  const gap = slotWidth > 8 ? 3 : slotWidth > 3 ? 1 : 0;
  let below = 0;
  return slot.values.flatMap((value, index) => {
    if (!value) return [];
    const from = y(below);
    below += value;
    const height = Math.max(1, from - y(below));
    return [paint(svg("rect", { x: x + gap / 2, y: from - height, width: Math.max(0.5, slotWidth - gap), height }), prefix, index + 1)];
  });
}

/** As many as fit, the last one always. */
function dayLabels(slots, left, slotWidth, width) {
  const room = slots[0]?.label.length > 7 ? 130 : 72;
  const every = Math.max(1, Math.ceil(room / slotWidth));
  const last = slots.length - 1;
  return slots.flatMap(({ label }, at) => {
    if ((last - at) % every) return [];
    const middle = left + (at + 0.5) * slotWidth;
    const end = middle > width - room / 2;
    return [svg("text", { x: end ? width : middle, y: HEIGHT - 6, "text-anchor": end ? "end" : "middle", "aria-hidden": "true" }, label)];
  });
}
