// The step that is shown: it plays, pauses, and can be dragged.

import { $, context } from "./dom.js";
import { strip } from "./plots.js";
import { state } from "./state.js";
import { colours } from "./theme.js";

const SECONDS = 6; // to play a whole solve at speed 1
const SLOWEST = 12; // steps per second, for short solves

export class Player {
  constructor(app) {
    this.app = app;
    this.place = 0;
    this.playing = true;
    this.before = null;
    $("play").onclick = () => this.toggle();
    $("back").onclick = () => this.go(this.step - 1);
    $("forward").onclick = () => this.go(this.step + 1);
    $("step").oninput = () => this.go(+$("step").value);
    $("speed").onchange = () => this.app.arrived();
  }

  get step() {
    return Math.floor(this.place);
  }

  // Play from the beginning, or pause at the step of a link.
  restart(step = null) {
    this.place = Math.max(0, Math.min(state.steps, Math.floor(step ?? 0)));
    this.playing = step === null;
    this.before = null;
    if (this.playing && matchMedia("(prefers-reduced-motion: reduce)").matches) $("speed").value = "0";
    this.app.arrived();
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.step >= this.app.total()) this.place = 0;
    this.before = null;
    this.app.arrived();
  }

  go(step) {
    this.playing = false;
    this.place = Math.max(0, Math.min(this.app.total(), step));
    this.app.stepped();
    this.app.arrived();
  }

  // Advance with the clock, up to the last step that has arrived.
  advance(now) {
    if (!this.playing) return;
    const [total, arrived] = [this.app.total(), this.app.arrivedSteps()];
    const speed = +$("speed").value;
    const passed = this.before === null ? 0 : (now - this.before) / 1000;
    this.before = now;
    const rate = speed * Math.max(SLOWEST, total / SECONDS);
    this.place = speed ? Math.min(arrived, this.place + rate * Math.min(passed, 0.25)) : arrived;
    if (this.step >= total && this.app.finished()) {
      this.playing = false;
      this.app.stepped();
    }
  }

  draw() {
    const [total, palette] = [this.app.total(), colours()];
    if (this.app.finished()) this.place = Math.min(this.place, total); // a solve may have stopped early
    $("step").max = total;
    $("step").value = this.step;
    $("step").setAttribute("aria-valuetext", `step ${this.step} of ${total}`);
    $("step-number").textContent = `${this.step} / ${total}`;
    $("play").textContent = this.playing ? "❚❚" : "▶";
    $("play").setAttribute("aria-label", this.playing ? "Pause" : "Play");
    const rail = context($("rail"));
    if (!rail) return;
    const { g, w, h } = rail;
    const half = (h - 2) / 2;
    this.app.panes.forEach((pane, i) => {
      const box = { x: 0, y: i * (half + 2), w, h: half };
      g.fillStyle = palette.raised;
      g.fillRect(box.x, box.y, box.w, box.h);
      if (pane.main) strip(g, box, pane.main, 0, total, palette);
      const { since } = pane.main?.done ? pane.main.rightness() : { since: null };
      if (since !== null) this.mark(g, (w * since) / total, box, palette);
    });
    const x = Math.max(1.5, Math.min(w - 1.5, (w * this.step) / Math.max(1, total)));
    g.fillStyle = palette.text;
    g.fillRect(x - 1.5, 0, 3, h);
  }

  // Mark the step from which a net stays right.
  mark(g, x, box, palette) {
    g.fillStyle = palette.text;
    g.beginPath();
    g.moveTo(x - 4, box.y);
    g.lineTo(x + 4, box.y);
    g.lineTo(x, box.y + 6);
    g.closePath();
    g.fill();
  }
}
