// Tooltips: one box, beside whatever has a data-tip and is under the pointer or has the focus.

import { $, el } from "./dom.js";
import { PLOTS, TERMS } from "./terms.js";

const GAP = 8; // pixels to the edges of the window, and to the element

// A word with its explanation.
export const term = (name, text = name) => el("span", { className: "tip", "data-tip": TERMS[name] }, text);

function show(target) {
  const box = $("tip");
  if (!target) {
    box.hidden = true;
    return;
  }
  box.textContent = target.dataset.tip;
  box.hidden = false;
  const { left, top, bottom } = target.getBoundingClientRect();
  const [wide, high] = [box.offsetWidth, box.offsetHeight];
  const below = bottom + GAP + high <= innerHeight;
  box.style.left = `${Math.max(GAP, Math.min(left, innerWidth - wide - GAP))}px`;
  box.style.top = `${below ? bottom + GAP : Math.max(GAP, top - GAP - high)}px`;
}

const explained = ({ target }) => (target instanceof Element ? target.closest("[data-tip]") : null);

export function attachTips() {
  document.addEventListener("pointerover", (event) => show(explained(event)));
  document.addEventListener("pointerdown", (event) => event.pointerType === "touch" || show(null));
  document.addEventListener("focusin", (event) => show(event.target.matches(":focus-visible") ? explained(event) : null));
  document.addEventListener("focusout", () => show(null));
  document.addEventListener("scroll", () => show(null), { passive: true, capture: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && show(null));
  const meaning = (entries) => entries.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]);
  const plots = { "Residual plot": PLOTS.residuals, Trajectories: PLOTS.paths, Strips: PLOTS.strips };
  $("terms").replaceChildren(...meaning([...Object.entries(plots), ...Object.entries(TERMS)]));
}
