// Pages that renew themselves while they are looked at. A page says by `liveHead` that it does.

import { get, renewals } from "./api.js";
import { announce, h } from "./dom.js";
import { readSetting, writeSetting } from "./format.js";
import { merge, touch } from "./merge.js";

const PAUSE_MS = 5000;
/** Times and figures of the last hour change although nothing happens. */
const LONGEST_MS = 60000;

const clock = (ms) => `${new Date(ms).toISOString().slice(11, 19)} UTC`;

/** Whether what is shown must not change: a question in front of it, or a later page of a list. */
const isFixed = () => document.querySelector("dialog[open]") || new URLSearchParams(location.search).has("cursor");

export function shellPart({ main, build, fail, leaves }) {
  /** What stands in the head of the page that is shown: the button, and what is wrong. */
  let button = null;
  let wrong = null;
  let timer = 0;
  /** The mark of what is shown, since when it is true, and when it was built. */
  let shown = { mark: null, true: 0, built: 0 };
  /** How old a page has to be for another one, if it says so. */
  let least = 0;
  const isOn = () => readSetting("live") !== "off";

  const begin = () => {
    const place = main.querySelector(".live");
    clearTimeout(timer);
    if (!place || isFixed()) return;
    least = Number(place.dataset.least ?? 0);
    shown = { mark: null, true: Date.now(), built: Date.now() };
    wrong = h("small", { class: "red" });
    button = h("button", { type: "button", class: "quiet", onclick: toggle }, "Live");
    place.replaceChildren(wrong, button);
    tell();
    wait();
  };

  function tell() {
    button.setAttribute("aria-pressed", isOn());
    button.textContent = isOn() ? "Live" : `Paused, ${clock(shown.true).replace(/:\d\d /, " ")}`;
    button.title = `As of ${clock(shown.true)}. ${isOn() ? "Renewed every 5 seconds; press to stop." : "Stopped; press to go on."}`;
  }

  function toggle() {
    writeSetting("live", isOn() ? "off" : "on");
    wrong.textContent = "";
    tell();
    if (isOn()) renew();
    else clearTimeout(timer);
  }

  function wait() {
    clearTimeout(timer);
    if (isOn() && !document.hidden) timer = setTimeout(renew, PAUSE_MS);
  }

  async function renew() {
    clearTimeout(timer);
    if (isFixed()) return wait();
    const signal = leaves();
    renewals.add(signal);
    try {
      await ask(signal);
      wrong.textContent = "";
    } catch (error) {
      // Another page is shown by now, and has begun anew.
      if (signal.aborted) return;
      if (error.status === 401) return fail(error);
      if (!wrong.textContent) announce("The page is not renewed any more.");
      wrong.textContent = `not renewed since ${clock(shown.true)}`;
    } finally {
      renewals.delete(signal);
    }
    tell();
    wait();
  }

  async function ask(signal) {
    const asked = Date.now();
    const { mark } = await get("/live", signal);
    const age = asked - shown.built;
    if (mark !== shown.mark && age >= least || age > LONGEST_MS) {
      const content = [await build(signal)].flat(9).filter(Boolean);
      signal.throwIfAborted();
      if (isFixed()) return;
      merge(main, content);
      shown = { mark, built: asked };
    }
    shown.true = asked;
  }

  main.addEventListener("placed", begin);
  main.addEventListener("input", touch);
  document.addEventListener("visibilitychange", () => {
    if (!button?.isConnected || !isOn()) return;
    if (document.hidden) clearTimeout(timer);
    else renew();
  });
  begin();
}
