// All answers of a solve in one picture, for answers that are a row of bits: one column per bit, one row per step.

import { context, el } from "./dom.js";

export class History {
  constructor(side) {
    const id = `history-${side}`;
    this.canvas = el("canvas", { id, role: "img", "aria-label": "All answers: one column per bit, one row per step" });
    const caption = el("figcaption", {}, "all answers: one column per bit, one row per step");
    this.element = el("figure", { className: "history", hidden: true }, caption, this.canvas);
    this.memory = document.createElement("canvas"); // one pixel per place and step
    this.recording = null;
    this.rows = 0;
  }

  // `pixel(value, colours)` is the colour of a place; without it the picture is hidden.
  draw(recording, pixel, step, total, colours) {
    this.element.hidden = !pixel;
    if (!pixel) return;
    if (!recording?.count) {
      context(this.canvas);
      return;
    }
    this.remember(recording, pixel, colours);
    const { g, w, h } = context(this.canvas) ?? {};
    if (!g) return;
    const high = (h * recording.count) / (total + 1);
    g.imageSmoothingEnabled = recording.places > w; // sharp squares if there is room
    g.drawImage(this.memory, 0, 0, recording.places, recording.count, 0, 0, w, high);
    g.fillStyle = colours.text;
    g.fillRect(0, Math.min(h - 1.5, (h * (step + 0.5)) / (total + 1)), w, 1.5);
  }

  // Add the rows that have arrived; all of them if the recording or the colours have changed.
  remember(recording, pixel, colours) {
    if (recording !== this.recording || colours !== this.colours) {
      [this.recording, this.colours, this.rows] = [recording, colours, 0];
      [this.memory.width, this.memory.height] = [recording.places, recording.steps + 1];
      this.known = new Map();
    }
    const fresh = recording.count - this.rows;
    if (!fresh) return;
    const image = new ImageData(recording.places, fresh);
    const from = this.rows * recording.places;
    for (let i = 0; i < fresh * recording.places; i++) {
      const value = recording.painted[from + i];
      if (!this.known.has(value)) this.known.set(value, pixel(value, colours));
      image.data.set(this.known.get(value), 4 * i);
      image.data[4 * i + 3] = 255;
    }
    this.memory.getContext("2d").putImageData(image, 0, this.rows);
    this.rows = recording.count;
  }
}
