// Edit an input with a pointer or the keyboard, on the canvas that shows the answer.

import { changeInput, state } from "./state.js";

const MARGIN = 6;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// The places on a straight line from one to another, both included, in rows of `across`.
function between(from, to, across) {
  const [x0, y0, x1, y1] = [from % across, Math.floor(from / across), to % across, Math.floor(to / across)];
  const count = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0));
  const at = (i) => Math.round(y0 + ((y1 - y0) * i) / (count || 1)) * across + Math.round(x0 + ((x1 - x0) * i) / (count || 1));
  return Array.from({ length: count + 1 }, (_, i) => at(i));
}

// A stroke of the pointer: it only draws walls, or only removes them, and visits each place once.
class Stroke {
  constructor(view, input, place) {
    this.view = view;
    this.input = input; // before the stroke
    this.flips = new Set(state.input.flips);
    this.value = view.drawsTo(input, place);
    this.last = place;
    this.seen = new Set();
    this.reach(place);
  }

  reach(place) {
    let changed = false;
    for (const one of between(this.last, place, this.view.columns(this.input))) {
      if (this.seen.has(one)) continue;
      this.seen.add(one);
      if (!this.view.mayFlip(this.input, one) || this.view.valueAt(this.input, one) === this.value) continue;
      if (!this.flips.delete(one)) this.flips.add(one);
      changed = true;
    }
    this.last = place;
    if (changed) changeInput({ flips: [...this.flips] });
  }
}

export function attachEditor(pane, app) {
  const canvas = pane.answer;
  let grip = null; // what the pointer holds: "flip", "begin" or "end"
  let begun = null; // where the pointer went down. A finger draws when it taps or moves sideways; up and down it scrolls
  let stroke = null;

  const placeOf = ({ clientX, clientY }) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const box = { x: MARGIN, y: MARGIN, w: width - 2 * MARGIN, h: height - 2 * MARGIN };
    return pane.input ? pane.view.placeAt(pane.input, box, clientX - left, clientY - top) : null;
  };

  const gripAt = (event) => {
    const place = placeOf(event);
    return place === null || app.frozen ? null : (pane.view.grip?.(pane.input, place) ?? null);
  };

  const hold = (what, place) => {
    const other = what === "begin" ? pane.input.end : pane.input.begin;
    if (pane.view.mayHold?.(pane.input, place) && place !== other) changeInput({ [what]: place });
  };

  const draw = (place) => {
    if (stroke) stroke.reach(place);
    else stroke = new Stroke(pane.view, pane.input, place);
  };

  canvas.addEventListener("pointerdown", (event) => {
    grip = event.button ? null : gripAt(event);
    if (!grip) return;
    canvas.setPointerCapture(event.pointerId);
    pane.cursor = null;
    begun = { place: placeOf(event), x: event.clientX, y: event.clientY };
    if (grip === "flip" && event.pointerType !== "touch") draw(begun.place);
  });

  canvas.addEventListener("pointermove", (event) => {
    const place = placeOf(event);
    if (!grip || place === null || place === (stroke?.last ?? begun.place)) return;
    if (grip !== "flip") return hold(grip, place);
    if (!stroke) {
      if (Math.abs(event.clientY - begun.y) > Math.abs(event.clientX - begun.x)) return;
      draw(begun.place);
    }
    return draw(place);
  });

  canvas.addEventListener("pointerup", () => {
    if (grip === "flip" && !stroke) draw(begun.place);
    grip = stroke = null;
  });

  canvas.addEventListener("pointercancel", () => (grip = stroke = null));

  // A finger on the start or the end of a maze moves it instead of scrolling.
  canvas.addEventListener("touchstart", (event) => {
    if (["begin", "end"].includes(gripAt(event.touches[0])) && event.cancelable) event.preventDefault();
  }, { passive: false });

  canvas.addEventListener("keydown", (event) => {
    if (!pane.input || !pane.view.places(pane.input) || event.ctrlKey || event.metaKey || event.altKey || app.frozen) return;
    const count = pane.view.places(pane.input);
    const across = pane.view.columns(pane.input);
    if (event.key in ARROWS) {
      const [right, down] = ARROWS[event.key];
      const next = pane.cursor === null ? Math.floor(count / 2) : pane.cursor + right + down * across;
      if (next >= 0 && next < count) pane.cursor = next;
    } else if (pane.cursor !== null && (event.key === " " || event.key === "Enter")) new Stroke(pane.view, pane.input, pane.cursor);
    else if (pane.cursor !== null && pane.view.mayHold && /^[sSeE]$/.test(event.key)) {
      hold(event.key.toLowerCase() === "s" ? "begin" : "end", pane.cursor);
    } else return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key in ARROWS) pane.sayCursor(); // a change is announced when the server has answered
    app.arrived();
  });

  canvas.addEventListener("blur", () => {
    pane.cursor = null;
    app.arrived();
  });
}
