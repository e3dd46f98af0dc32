// Charts over time as SVG: stacked bars and lines under each other, over one axis. The table below a chart has
// the same figures; its title is the conclusion.

import { h, newId, svg } from "./dom.js";

const HEIGHT = 196;
const TOP = 28;
const BOTTOM = 24;
const GAP = 10;
const TICKS = 4;
/** Steps without a value over which a line goes on; a longer gap breaks it. */
const BRIDGED = 3;
export const MAX_SERIES = 8;

/** A round step of at least what can be counted, and how many decimals it needs. */
function chooseStep(max, least) {
  const rough = Math.max(least, max / TICKS);
  const power = Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * 10 ** power >= rough * 0.999) * 10 ** power;
  return { step, decimals: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** Hatches and dots tell series apart for those who want more contrast; others see plain colours. */
function patterns(prefix) {
  const shapes = { 2: "M0 6L6 0", 3: "M3 0V6", 4: "M0 3H6", 6: "M0 0L6 6", 7: "M0 6L6 0M0 0L6 6", 8: "M2 2h2v2h-2z" };
  return svg("defs", null, Object.entries(shapes).map(([index, d]) =>
    svg("pattern", { id: `${prefix}-${index}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: `s${index}` },
      svg("rect", { width: 6, height: 6 }), svg("path", { d, class: "hatch" }))));
}

const bar = (prefix, tone, place) =>
  svg("rect", { ...place, class: `bar s${tone}`, fill: [1, 5, 9].includes(tone) ? "currentColor" : `url(#${prefix}-${tone})` });

const lineClass = ({ tone, dashed }) => `line s${tone} ${dashed ? "dashed" : ""}`;

/**
 * `slots`: [{label, text, values}], in order; `text` is read out, `values` are numbers by series, or null.
 * `plots`: [{unit, series, least, lines, height}], one if they are left out: the parts of a chart under each other. `unit` is at
 * the top of the axis, `least` the smallest difference between values, and `lines` are drawn in place of bars.
 * `series`: [{name, text or an element, say(value), tone, dashed}] in the order of the values, the lowest bar first;
 * `say` writes one value into the legend while its slot is read out. Without series the bars are of one kind.
 * `zoom(first, last)` is called with the slots of a span that was chosen; with `picks` one slot is a span, too.
 */
export function chart({ title, unit, slots, series = [], least, height, plots = [{ unit, series, least, height }], emptyText, zoom, picks }) {
  const prefix = newId("hatch");
  const parts = plots.map((plot, index) => ({
    ...plot, least: plot.least ?? 1e-9, height: plot.height ?? HEIGHT,
    first: plots.slice(0, index).reduce((sum, { series: one }) => sum + one.length, 0),
    series: (plot.series.length ? plot.series : [{}]).map((one, at) => ({ tone: at + 1, ...one })),
  }));
  const named = parts.flatMap((part) => part.series.map((one, at) => ({ ...one, lines: part.lines, at: part.first + at }))).filter(({ name }) => name);
  const figuresOf = named.map(({ text }) => h("b", null, text));
  const readout = h("span", { class: "readout", "aria-hidden": "true" }, "\u00a0");
  const box = h("div", { class: picks ? "plot picks" : "plot" });
  const slider = h("input", { type: "range", class: "reader", min: 0, max: slots.length - 1, value: slots.length - 1, "aria-label": zoom ? "Read the chart; Shift and arrows choose a span, Enter shows it" : "Read the chart" });
  let picture = null;
  let anchor = null;
  const read = (at) => {
    const slot = slots[at];
    picture?.mark(slot ? Math.min(at, anchor ?? at) : null, slot && Math.abs(at - (anchor ?? at)) + 1);
    readout.textContent = slot ? (anchor === null || anchor === at ? slot.text : spanText(slots, anchor, at)) : "\u00a0";
    named.forEach((one, index) => {
      const value = slot?.values[one.at];
      figuresOf[index].replaceChildren(!slot || !one.say ? one.text ?? "" : value === null ? "–" : one.say(value));
    });
    if (slot) slider.setAttribute("aria-valuetext", [slot.text, ...named.map(({ name }, index) => `${name} ${figuresOf[index].textContent}`)].join(", "));
  };
  const choose = (at) => {
    const [first, last] = [anchor ?? at, at].sort((one, other) => one - other);
    anchor = null;
    if (zoom && slots[first] && (picks || last > first)) zoom(slots[first], slots[last]);
    else read(at);
  };
  const draw = () => {
    if (box.clientWidth) picture = drawChart({ box, title, slots, parts, prefix });
  };
  new ResizeObserver(draw).observe(box);
  onPointer(box, { read, choose, at: (event) => picture?.find(event), begin: (at) => { anchor = zoom ? at : null; }, end: () => { anchor = null; read(-1); } });
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (picks || anchor !== null)) choose(Number(slider.value));
    else if (event.key === "Escape") anchor = null;
    else if (zoom && event.shiftKey && event.key.startsWith("Arrow")) anchor ??= Number(slider.value);
    else if (event.key.startsWith("Arrow")) anchor = null;
  });
  slider.addEventListener("input", () => read(Number(slider.value)));
  slider.addEventListener("focus", () => read(Number(slider.value)));
  slider.addEventListener("blur", () => { anchor = null; read(-1); });
  return h("figure", { class: "chart" },
    h("figcaption", null, title, readout),
    slots.length > 1 && slider, box,
    emptyText && h("p", { class: "none" }, emptyText),
    named.length > 0 && h("ul", { class: "legend" }, named.map((one, index) =>
      h("li", null, swatch(prefix, one), h("span", null, one.name), figuresOf[index]))));
}

const spanText = (slots, one, other) => `${slots[Math.min(one, other)].label} to ${slots[Math.max(one, other)].label}`;

/** The pointer reads out; drawn over a span with a mouse or a pen it chooses that. A finger scrolls the page. */
function onPointer(box, { read, choose, at, begin, end }) {
  let isDown = false;
  box.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch") return;
    isDown = true;
    box.setPointerCapture(event.pointerId);
    begin(at(event));
    event.preventDefault();
  });
  box.addEventListener("pointermove", (event) => read(at(event)));
  box.addEventListener("pointerup", (event) => {
    if (isDown) choose(at(event));
    isDown = false;
  });
  for (const name of ["pointerleave", "pointercancel"]) {
    box.addEventListener(name, () => {
      isDown = false;
      end();
    });
  }
}

const swatch = (prefix, one) => svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, one.lines
  ? svg("path", { class: lineClass(one), d: "M0 6H12" }) : bar(prefix, one.tone, { width: 12, height: 12, rx: 2 }));

/** Draw the chart; return what finds the slot of a pointer, and what marks slots. */
function drawChart({ box, title, slots, parts, prefix }) {
  const titleId = newId("chart");
  const width = box.clientWidth;
  const height = parts.reduce((sum, part) => sum + part.height + GAP, BOTTOM - GAP);
  const root = svg("svg", { role: "img", "aria-labelledby": titleId, width, height, viewBox: `0 0 ${width} ${height}` },
    svg("title", { id: titleId }, title), patterns(prefix));
  box.replaceChildren(root);
  const areas = parts.map((part, index) => makeArea(part, slots, parts.slice(0, index).reduce((sum, one) => sum + one.height + GAP, 0)));
  const left = drawTicks(root, areas, width);
  const slotWidth = (width - left) / slots.length;
  for (const area of areas) {
    root.append(svg("text", { y: area.from + 12, "aria-hidden": "true" }, area.unit));
    root.append(...(area.lines ? drawLines : drawBars)(area, slots, left, slotWidth, prefix));
  }
  root.append(...dayLabels(slots, left, slotWidth, width, height));
  const shade = svg("rect", { class: "mark", y: TOP, height: height - TOP - BOTTOM, visibility: "hidden" });
  root.append(shade);
  return {
    find: (event) => {
      const x = event.clientX - root.getBoundingClientRect().left - left;
      return x < 0 ? -1 : Math.min(Math.floor(x / slotWidth), slots.length - 1);
    },
    mark: (at, count) => {
      shade.setAttribute("visibility", at === null ? "hidden" : "visible");
      shade.setAttribute("x", left + at * slotWidth);
      shade.setAttribute("width", (count || 1) * slotWidth);
    },
  };
}

/** A part of the chart with its scale: `from` is its upper edge. */
function makeArea(part, slots, from) {
  const own = ({ values }) => values.slice(part.first, part.first + part.series.length);
  const highest = (slot) => (part.lines ? Math.max(0, ...own(slot)) : own(slot).reduce((sum, value) => sum + value, 0));
  const most = Math.max(0, ...slots.map(highest));
  const { step, decimals } = chooseStep(most || 1, part.least);
  const top = Math.max(1, Math.ceil(most / step - 1e-9)) * step;
  const y = (value) => from + TOP + (1 - value / top) * (part.height - TOP);
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, at) => [tickText(at * step, decimals), y(at * step)]);
  return { ...part, from, own, y, ticks };
}

/** Draw the lines of the grids and their values; return where all plots begin: behind the longest value. */
function drawTicks(root, areas, width) {
  const ticks = areas.flatMap((area) => area.ticks);
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

function drawBars({ own, series, y }, slots, left, slotWidth, prefix) {
  const gap = slotWidth > 8 ? 3 : slotWidth > 3 ? 1 : 0;
  return slots.flatMap((slot, at) => {
    let below = 0;
    return own(slot).flatMap((value, index) => {
      if (!value) return [];
      const from = y(below);
      below += value;
      const height = Math.max(1, from - y(below));
      return [bar(prefix, series[index].tone, { x: left + at * slotWidth + gap / 2, y: from - height, width: Math.max(0.5, slotWidth - gap), height })];
    });
  });
}

function drawLines({ own, series, y }, slots, left, slotWidth) {
  return series.map((one, index) => {
    let last = -Infinity;
    const steps = slots.flatMap((slot, at) => {
      const value = own(slot)[index];
      if (value === null) return [];
      const point = `${(left + (at + 0.5) * slotWidth).toFixed(1)} ${y(value).toFixed(1)}`;
      const isNear = at - last <= BRIDGED;
      last = at;
      return [isNear ? `L${point}` : `M${point}h0`];
    });
    return svg("path", { class: lineClass(one), d: steps.join("") });
  });
}

/** As many as fit, the last one always. */
function dayLabels(slots, left, slotWidth, width, height) {
  const room = slots[0]?.label.length > 7 ? 130 : 72;
  const every = Math.max(1, Math.ceil(room / slotWidth));
  const last = slots.length - 1;
  return slots.flatMap(({ label }, at) => {
    if ((last - at) % every) return [];
    const middle = left + (at + 0.5) * slotWidth;
    const end = middle > width - room / 2;
    return [svg("text", { x: end ? width : middle, y: height - 6, "text-anchor": end ? "end" : "middle", "aria-hidden": "true" }, label)];
  });
}
