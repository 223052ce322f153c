// Inputs changed by hand, with a pointer or with the keyboard, right where the answer is drawn.

import { sayPlace } from "./dom.js";
import { changeInput, state } from "./state.js";

const MARGIN = 6;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function toggled(place) {
  const flips = new Set(state.input.flips);
  if (!flips.delete(place)) flips.add(place);
  return [...flips];
}

export function attachEditor(pane, app) {
  const canvas = pane.answer;
  let grip = null; // what the pointer holds: "flip", "begin" or "end"
  let drawsTo = null;
  let last = null;

  const placeOf = (event) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const box = { x: MARGIN, y: MARGIN, w: width - 2 * MARGIN, h: height - 2 * MARGIN };
    return pane.input ? pane.view.placeAt(pane.input, box, event.clientX - left, event.clientY - top) : null;
  };

  const flip = (place) => {
    if (!pane.view.mayFlip?.(pane.input, place)) return;
    changeInput({ flips: toggled(place) });
  };

  const hold = (what, place) => {
    const other = what === "begin" ? pane.input.end : pane.input.begin;
    if (pane.view.mayHold?.(pane.input, place) && place !== other) changeInput({ [what]: place });
  };

  canvas.addEventListener("pointerdown", (event) => {
    const place = placeOf(event);
    if (event.button || place === null || app.frozen) return;
    grip = pane.view.grip?.(pane.input, place) ?? null;
    if (!grip) return;
    canvas.setPointerCapture(event.pointerId);
    last = place;
    pane.cursor = null;
    if (grip === "flip") {
      drawsTo = pane.view.drawsTo(pane.input, place);
      flip(place);
    }
  });

  canvas.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const place = placeOf(event);
    if (place === null || place === last) return;
    last = place;
    if (grip !== "flip") hold(grip, place);
    // Only what differs: a stroke draws walls or removes them, it does not alternate.
    else if (pane.view.valueAt(pane.input, place) !== drawsTo) flip(place);
  });

  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (grip = null));

  canvas.addEventListener("keydown", (event) => {
    if (!pane.input || !pane.view.places(pane.input) || event.ctrlKey || event.metaKey || event.altKey || app.frozen) return;
    const count = pane.view.places(pane.input);
    const across = pane.view.columns(pane.input);
    if (event.key in ARROWS) {
      const [right, down] = ARROWS[event.key];
      const next = pane.cursor === null ? Math.floor(count / 2) : pane.cursor + right + down * across;
      if (next >= 0 && next < count) pane.cursor = next;
    } else if (pane.cursor !== null && (event.key === " " || event.key === "Enter")) flip(pane.cursor);
    else if (pane.cursor !== null && pane.view.mayHold && /^[sSeE]$/.test(event.key)) {
      hold(event.key.toLowerCase() === "s" ? "begin" : "end", pane.cursor);
    } else return;
    event.preventDefault();
    event.stopPropagation();
    if (pane.cursor !== null) sayPlace(pane.view.described(pane.input, pane.cursor));
    app.arrived();
  });

  canvas.addEventListener("blur", () => {
    pane.cursor = null;
    app.arrived();
  });
}
