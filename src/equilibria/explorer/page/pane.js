// One net: its answer at every step, its residuals and its trajectories.

import { attachEditor } from "./editor.js";
import { $, context, el, say, sayPlace, short } from "./dom.js";
import { History } from "./history.js";
import { KINDS, paths, residuals, ROW, strips } from "./plots.js";
import { Recording } from "./recording.js";
import { change, request, SIDES, state } from "./state.js";
import { colours } from "./theme.js";
import { VIEWS } from "./views/index.js";

const WORDS = {
  converged: ["converged", "good"], settled: ["settled", "good"], cycling: ["cycle", "mid"],
  exhausted: ["unsettled", "mid"], diverged: ["diverged", "bad"],
};
const percent = (share) => `${Math.round(100 * share)}%`;

export class Pane {
  constructor(number, app) {
    this.number = number;
    this.app = app;
    this.ends = [];
    this.build();
    this.clear();
  }

  build() {
    const side = SIDES[this.number];
    this.choice = el("select", { id: `net-${side}`, "aria-label": `Net on the ${side}` });
    this.choice.onchange = () => this.app.chooseNet(this.number, this.choice.value);
    this.known = el("span", { className: "known" });
    this.verdict = el("strong", { id: `verdict-${side}` });
    this.now = el("span", { id: `now-${side}` });
    this.answer = el("canvas", { className: "answer", id: `answer-${side}`, tabIndex: 0, role: "application" });
    this.residuals = el("canvas", { role: "img", id: `residuals-${side}` });
    this.paths = el("canvas", { role: "img", id: `paths-${side}` });
    this.zoom = el("button", { type: "button", textContent: "zoom in", "aria-pressed": "false" });
    this.zoom.onclick = () => change({ zoom: state.zoom.with(this.number, !this.zoomed) }, null);
    this.strips = el("canvas", { role: "img", id: `strips-${side}` });
    this.chips = el("div", { className: "chips", id: `chips-${side}` });
    this.history = new History(side);
    this.stripBox = el("div", { className: "strips" }, this.strips);
    const plots = el("div", { className: "plots" }, el("figure", {}, this.residuals), el("figure", {}, this.paths, this.zoom));
    this.element = el(
      "article", { className: "pane", "aria-label": `Net on the ${side}` },
      el("header", {}, this.choice, this.known),
      el("div", { className: "verdict" }, this.verdict, this.now),
      el("div", { className: "body" }, this.answer, plots),
      this.history.element, this.chips, this.stripBox,
    );
    this.element.style.setProperty("--side", `var(--${side})`);
    attachEditor(this, this.app);
  }

  clear() {
    this.input = this.main = this.several = this.trouble = null;
    this.cursor = null;
    this.preparing = this.waiting = "";
  }

  // Solve again. The old picture stays until the first new one arrives.
  solve() {
    this.stop();
    this.trouble = null;
    this.waiting = "";
    this.fresh = true;
    this.ends.push(this.app.transport.open(request(this.number, "think"), (event) => this.receive(event)));
  }

  stop() {
    for (const end of this.ends.splice(0)) end();
  }

  receive(event) {
    if (event.event === "input") {
      this.view = VIEWS[this.app.nets.tasks[state.task].drawing]; // kept until the input of another task arrives
      this.input = this.view.prepared(event.drawing);
      this.note = event.note;
      this.judged = event.judged;
      if (this.fresh) this.main = this.several = null;
      this.fresh = false;
      this.sayCursor();
      this.app.showNotes();
    } else if (event.event === "preparing") {
      this.preparing = event.start === "attack" ? "searching for an adversarial start" : `solving another input: ${percent(event.share)}`;
    } else if (event.event === "opened") {
      this.preparing = "";
      this.main = new Recording(event);
      if (state.restarts >= 0) {
        this.ends.push(this.app.transport.open(request(this.number, "diagnose"), (event) => this.diagnosed(event)));
      }
    } else if (event.event === "frames") this.main.add(event);
    else if (event.event === "done") this.finish(event);
    else if (event.event === "refused") this.refused(event);
    this.app.arrived();
  }

  finish(event) {
    this.main.done = event;
    this.words();
    say(`${SIDES[this.number]} net: ${this.verdict.textContent}`);
  }

  diagnosed(event) {
    if (event.event === "preparing") this.waiting = `solving other inputs: ${percent(event.share)}`;
    else if (event.event === "opened") this.several = new Recording(event);
    else if (event.event === "frames") this.several.add(event);
    else if (event.event === "done") this.several.done = event;
    else if (event.event === "refused") this.refused(event);
    this.app.arrived();
  }

  // Announce what is under the keyboard's cursor.
  sayCursor() {
    if (this.cursor !== null && this.cursor < this.view.places(this.input)) sayPlace(this.view.described(this.input, this.cursor));
  }

  refused({ reason }) {
    this.trouble = reason;
    this.note = "";
    this.preparing = "";
    this.app.showNotes();
  }

  get zoomed() {
    return state.zoom[this.number];
  }

  showZoom() {
    this.zoom.textContent = this.zoomed ? "zoom out" : "zoom in";
    this.zoom.setAttribute("aria-pressed", String(this.zoomed));
    this.app.arrived();
  }

  // The step that this pane shows when the player is at `step`.
  shown(step) {
    return this.main?.count ? Math.min(step, this.main.last) : null;
  }

  draw(step) {
    const palette = colours();
    const at = this.shown(step);
    const answer = context(this.answer);
    if (answer && this.input) {
      const box = { x: 6, y: 6, w: answer.w - 12, h: answer.h - 12 };
      this.view.draw(answer.g, box, this.input, at === null ? null : this.main.answer(at), palette, this.cursor);
    }
    const total = this.app.total();
    const plot = context(this.residuals);
    if (plot) residuals(plot.g, { x: 0, y: 0, ...plot }, this.lines(palette), total, step, palette);
    const plane = context(this.paths);
    if (plane) paths(plane.g, { x: 0, y: 0, ...plane }, this.several, step, this.zoomed, palette, this.several || state.restarts < 0 ? "" : this.waiting);
    this.history.draw(this.main, this.view?.pixel, step, total, palette);
    this.stripBox.hidden = state.restarts < 0;
    this.strips.style.height = `${(this.several?.starts.length ?? 3 + state.restarts) * ROW}px`; // in advance, so that the page does not jump
    if (this.several) {
      const rows = context(this.strips);
      if (rows) strips(rows.g, { x: 0, y: 0, ...rows }, this.several, total, step, palette);
    }
    this.words(at);
  }

  lines(palette) {
    const line = (recording, start, look) => ({ at: (step) => recording.at(step, "residual", start), count: recording.count, ...look });
    const found = (this.several?.starts ?? []).map((_, start) => line(this.several, start, { colour: palette.swapped, width: 1, alpha: 0.45 }));
    if (this.main) found.push(line(this.main, 0, { colour: palette[SIDES[this.number]], width: 2, alpha: 1 }));
    return found;
  }

  // Update all text.
  words(at = this.shown(this.app.player?.step ?? 0)) {
    const [text, mood] = this.judgement();
    this.verdict.textContent = text;
    this.verdict.className = mood;
    let now = this.trouble || this.preparing ? "" : "waiting …";
    if (at !== null && this.input) {
      const { text } = this.view.summary(this.input, this.main.answer(at), this.main.at(at, "score"));
      now = `step ${at}: ${text}`;
    }
    this.now.textContent = now;
    this.answer.setAttribute("aria-label", `Answer of ${this.choice.value}. ${this.verdict.textContent}. ${now}`);
    this.describePlots();
    this.fillChips();
  }

  judgement() {
    if (this.trouble) return [this.trouble, "bad"];
    if (this.preparing) return [`${this.preparing} …`, ""];
    if (!this.main?.count) return ["solving …", ""];
    if (!this.judged) return ["not judged", ""];
    const { since, lost } = this.main.rightness();
    const over = this.main.done !== null;
    if (since !== null) return [over ? `Right from step ${since}` : `right since step ${since} …`, "good"];
    if (!over) return ["solving …", ""];
    const last = this.main.last;
    return lost ? [`Right until step ${lost[1]}, then wrong`, "bad"] : [`Not right within ${last} steps`, "bad"];
  }

  fillChips() {
    const found = [];
    const done = this.main?.done;
    if (done) {
      const [word, mood] = WORDS[done.status];
      found.push([done.status === "cycling" && done.period > 1 ? `cycle of period ${done.period}` : word, "", mood]);
      found.push(["residual", short(done.residual), ""]);
    }
    const diagnosis = this.several?.done;
    if (diagnosis) {
      const mood = (value) => (value > 0.99 ? "good" : value > 0.9 ? "mid" : "bad");
      const known = diagnosis.alignment !== null; // a diverged solve has no AA
      found.push(["AA of this input", known ? short(diagnosis.alignment) : "undefined", known ? mood(diagnosis.alignment) : "bad"]);
      if (known) found.push(["centred AA", short(diagnosis.centred), mood(diagnosis.centred)]);
      const right = this.several.starts.filter((_, i) => this.several.at(this.several.last, "right", i) === 1).length;
      if (this.judged) found.push(["right answers from", `${right} of ${this.several.starts.length} starts`, right === this.several.starts.length ? "good" : "bad"]);
      if (diagnosis.diverged) found.push(["restarts that diverged", String(diagnosis.diverged), "bad"]);
    } else if (this.several) found.push(["restarts", `step ${this.several.last}`, ""]);
    if (done) found.push([this.main.solver.replace("(damping=0.0)", ""), `${done.steps} steps`, ""]);
    const text = JSON.stringify(found);
    if (text === this.chipText) return;
    this.chipText = text;
    this.chips.replaceChildren(...found.map(([name, value, mood]) =>
      el("span", { className: `chip ${mood}` }, value ? `${name} ` : "", el("b", {}, value || name))));
  }

  describePlots() {
    const done = this.main?.done;
    const label = done ? `Residual per step: ${WORDS[done.status][0]}, ${short(done.residual)} after ${done.steps} steps` : "Residual per step";
    this.residuals.setAttribute("aria-label", label);
    const kinds = [...new Set(this.several?.starts ?? [])].map((kind) => KINDS[kind]).join(", ");
    const diagnosis = this.several?.done;
    const met = diagnosis?.alignment != null ? `. AA of this input ${short(diagnosis.alignment)}` : "";
    this.paths.setAttribute("aria-label", `Trajectories from ${kinds || "several starts"}, projected onto a plane${met}`);
    this.strips.setAttribute("aria-label", "Correctness of the answer at every step, one strip per start");
  }
}

export const mount = (panes) => $("panes").replaceChildren(...panes.map((pane) => pane.element));
