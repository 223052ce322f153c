// One net: its answer at every step, its residuals and its trajectories.

import { attachEditor } from "./editor.js";
import { $, context, el, say, sayPlace, short } from "./dom.js";
import { History } from "./history.js";
import { centred, KINDS, paths, residuals, ROW, strips } from "./plots.js";
import { Recording } from "./recording.js";
import { change, request, SIDES, state } from "./state.js";
import { PLOTS, TERMS } from "./terms.js";
import { colours } from "./theme.js";
import { viewOf } from "./views/index.js";

const WORDS = {
  converged: ["converged", "good"], settled: ["settled", "good"], cycling: ["cycle", "mid"],
  exhausted: ["unsettled", "mid"], diverged: ["diverged", "bad"], stopped: ["stopped", ""],
};
const MEANINGS = {
  converged: "The residual fell below the chosen tolerance.", settled: TERMS.settled, cycling: TERMS.cycle,
  exhausted: "The residual was not small after the last step.", diverged: "The state grew beyond all bounds.",
  stopped: "The chosen condition for stopping holds.",
};
const UNKNOWN = "…"; // a number that is not known yet
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
    this.compare = el("button", { type: "button", textContent: "Compare with another net", hidden: true });
    this.compare.onclick = () => this.app.compare();
    this.verdict = el("strong", { id: `verdict-${side}` });
    this.now = el("span", { id: `now-${side}` });
    this.answer = el("canvas", { className: "answer", id: `answer-${side}`, tabIndex: 0, role: "application" });
    this.residuals = el("canvas", { role: "img", id: `residuals-${side}` });
    this.paths = el("canvas", { role: "img", id: `paths-${side}` });
    this.zoom = el("button", { type: "button", textContent: "zoom in", "aria-pressed": "false" });
    this.zoom.onclick = () => change({ zoom: state.zoom.with(this.number, !this.zoomed) }, null);
    this.strips = el("canvas", { role: "img", id: `strips-${side}`, "data-tip": PLOTS.strips });
    this.pathBox = el("figure", { "data-tip": PLOTS.paths }, this.paths, this.zoom);
    this.chips = el("div", { className: "chips", id: `chips-${side}` });
    this.history = new History(side);
    this.stripBox = el("div", { className: "strips" }, this.strips);
    const plots = el("div", { className: "plots" }, el("figure", { "data-tip": PLOTS.residuals }, this.residuals), this.pathBox);
    this.element = el(
      "article", { className: "pane", "aria-label": `Net on the ${side}` },
      el("header", {}, this.choice, this.known, this.compare),
      el("div", { className: "verdict" }, this.verdict, this.now),
      el("div", { className: "body" }, this.answer, plots),
      this.history.element, this.chips, this.stripBox,
    );
    this.element.style.setProperty("--side", `var(--${side})`);
    attachEditor(this, this.app);
  }

  // Show nothing: what was shown belongs to another net or task.
  clear() {
    this.input = this.main = this.several = this.trouble = this.view = null;
    this.cursor = null;
    this.preparing = this.waiting = this.note = "";
  }

  // Solve again. Of the same net and task, the old picture stays, pale, until the first new one arrives.
  solve() {
    this.stop();
    const owner = `${state.task} ${state.nets[this.number]}`;
    if (owner !== this.owner) this.clear();
    this.owner = owner;
    this.element.hidden = !state.nets[this.number];
    this.trouble = null;
    this.waiting = this.preparing = "";
    this.fresh = true;
    if (this.element.hidden) return;
    this.words();
    this.ends.push(this.app.transport.open(request(this.number, "think"), (event) => this.receive(event)));
  }

  stop() {
    for (const end of this.ends.splice(0)) end();
  }

  receive(event) {
    if (event.event === "input") {
      this.view = viewOf(state.task, this.app.nets.tasks[state.task]);
      this.input = this.view.prepared(event.drawing);
      this.preparing = "";
      this.note = event.note;
      this.judged = event.judged;
      if (this.fresh) this.main = this.several = null;
      this.fresh = false;
      this.sayCursor();
      this.app.showNotes();
    } else if (event.event === "loading") {
      this.preparing = `loading ${event.what}: ${percent(event.share)}`;
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
    if (this.fresh) [this.main, this.several, this.fresh] = [null, null, false]; // they belong to the request before
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
    if (this.element.hidden) return;
    const palette = colours();
    const at = this.shown(step);
    const answer = context(this.answer);
    this.element.classList.toggle("stale", this.fresh);
    if (answer && !this.input) centred(answer.g, { x: 0, y: 0, ...answer }, this.trouble ? "" : this.awaited(), palette);
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
    this.stripBox.hidden = this.pathBox.hidden = state.restarts < 0;
    this.strips.style.height = `${(this.several?.starts.length ?? 3 + state.restarts) * ROW}px`; // in advance, so that the page does not jump
    const rows = context(this.strips);
    if (this.several) {
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
    if (at !== null && this.input && !this.fresh) {
      const { text } = this.view.summary(this.input, this.main.answer(at), this.main.at(at, "score"));
      now = `step ${at}: ${text}`;
    }
    this.now.textContent = now;
    this.answer.setAttribute("aria-label", `Answer of ${this.choice.value}. ${this.verdict.textContent}. ${now}`);
    this.describePlots();
    this.fillChips();
  }

  // What an empty pane waits for.
  awaited() {
    return this.preparing ? `${this.preparing} …` : "waiting for the first answer …";
  }

  judgement() {
    if (this.trouble) return [this.trouble, "bad"];
    if (this.preparing) return [`${this.preparing} …`, ""];
    if (this.fresh || !this.main?.count) return ["solving …", ""];
    if (!this.judged) return ["not judged", ""];
    const { since, lost } = this.main.rightness();
    const over = this.main.done !== null;
    if (since !== null) return [over ? `Right from step ${since}` : `right since step ${since} …`, "good"];
    if (!over) return ["solving …", ""];
    const last = this.main.last;
    return lost ? [`Right until step ${lost[1]}, then wrong`, "bad"] : [`Not right within ${last} steps`, "bad"];
  }

  // The facts below the picture. Numbers that are not known yet have a place already, so that nothing moves later.
  fillChips() {
    const found = [];
    const done = this.fresh ? null : this.main?.done;
    const diagnosis = this.fresh ? null : this.several?.done;
    const mood = (value) => (value > 0.99 ? "good" : value > 0.9 ? "mid" : "bad");
    if (done) {
      const [word, tone] = WORDS[done.status];
      found.push([done.status === "cycling" && done.period > 1 ? `cycle of period ${done.period}` : word, "", tone, MEANINGS[done.status]]);
    } else found.push([UNKNOWN, "", "", ""]);
    found.push(["residual", done ? short(done.residual) : UNKNOWN, "", TERMS.residual]);
    if (state.restarts >= 0 && !this.trouble) {
      const known = diagnosis && diagnosis.alignment !== null; // a diverged solve has no AA
      const shown = (value) => (known ? short(value) : diagnosis ? "undefined" : UNKNOWN);
      const tone = (value) => (known ? mood(value) : diagnosis ? "bad" : "");
      if (state.restarts > 0) {
        found.push(["AA of this input", shown(diagnosis?.alignment), tone(diagnosis?.alignment), TERMS.AA]);
        found.push(["centred AA", shown(diagnosis?.centred), tone(diagnosis?.centred), TERMS["centred AA"]]);
      }
      if (this.judged !== false) found.push(this.rightStarts(diagnosis));
      if (diagnosis?.diverged) found.push(["restarts that diverged", String(diagnosis.diverged), "bad", TERMS.restarts]);
    }
    if (done) {
      const solver = this.main.solver.replace("(damping=0.0)", "");
      found.push([solver, `${done.steps} steps`, "", TERMS[solver.split("(")[0]] ?? ""]);
    }
    const text = JSON.stringify(found);
    if (text === this.chipText) return;
    this.chipText = text;
    this.chips.replaceChildren(...found.map(([name, value, tone, meaning]) =>
      el("span", { className: `chip ${tone}`, ...(meaning ? { "data-tip": meaning } : {}) }, value ? `${name} ` : "", el("b", {}, value || name))));
  }

  rightStarts(diagnosis) {
    const meaning = "From how many starts the answer is right after the last step.";
    if (!diagnosis) return ["right answers from", this.several && !this.fresh ? `restarts at step ${this.several.last}` : UNKNOWN, "", meaning];
    const { starts, last } = this.several;
    const right = starts.filter((_, i) => this.several.at(last, "right", i) === 1).length;
    return ["right answers from", `${right} of ${starts.length} starts`, right === starts.length ? "good" : "bad", meaning];
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
