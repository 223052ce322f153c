// The form above the panes: input, start, solver, diagnosis.

import { $, el } from "./dom.js";
import { change, changeInput, INPUT, state } from "./state.js";
import { TERMS } from "./terms.js";
import { term } from "./tips.js";

const options = (pairs) => pairs.map(([value, text]) => el("option", { value, textContent: text }));
// A net is shown by its folder, and by its recipe's name if that says more.
const called = ({ path, name }) => (name && !path.includes(name) ? `${name} (${path})` : path);
const FIXED = ["difficulty", "seed", "digit", "scale", "start-seed", "steps", "stop", "restarts", "plane", "undo"];
const WITHIN = 1e-3; // a numerical answer is unchanged as long as no number has changed by more
const TOLERANCES = ["1e-2", "1e-3", "1e-4", "1e-5"].map((text) => [`tol:${+text}`, `residual ${text}`]);
const STOPS = {
  classes: [
    ["", "never"], ...TOLERANCES, ["unchanged:4", "unchanged, 4 steps"], ["unchanged:16", "unchanged, 16 steps"],
    ["confident:0.99", "99 % confident"], ["confident:0.999", "99.9 % confident"], ["cycling", "cycle"],
  ],
  numbers: [
    ["", "never"], ...TOLERANCES, [`unchanged:4:${WITHIN}`, "unchanged, 4 steps"], [`unchanged:16:${WITHIN}`, "unchanged, 16 steps"],
    ["cycling", "cycle"],
  ],
};
export const anySeed = () => Math.floor(Math.random() * 1e6);

export class Controls {
  constructor(app) {
    this.app = app;
    this.fill();
    $("solver").replaceChildren(...options(app.nets.solvers.map((name) => [name, name[0].toUpperCase() + name.slice(1)])));
    $("digit").replaceChildren(...options([["", "any"], ...[..."0123456789"].map((digit) => [digit, digit])]));
    $("steps").max = app.nets.max_steps;
    $("task").onchange = () => app.chooseTask($("task").value);
    $("new").onclick = () => app.newInput();
    $("undo").onclick = () => changeInput({ flips: [], begin: null, end: null });
    this.number("difficulty", (value) => this.chooseDifficulty(value));
    this.number("seed", (seed) => changeInput({ ...INPUT, difficulty: state.input.difficulty, digit: state.input.digit, seed }));
    $("digit").onchange = () => changeInput({ digit: $("digit").value === "" ? null : +$("digit").value });
    $("start").onchange = () => this.chooseStart($("start").value);
    this.number("scale", (scale) => change({ start: { ...state.start, scale }, step: null }));
    this.number("start-seed", (seed) => change({ start: { ...state.start, seed }, step: null }));
    $("solver").onchange = () => change({ solver: $("solver").value, step: null });
    this.number("steps", (steps) => change({ steps, step: null }));
    $("stop").onchange = () => this.chooseStop($("stop").value);
    for (const place of document.querySelectorAll("[data-term]")) place.dataset.tip = TERMS[place.dataset.term];
    $("restarts").onchange = () => change({ restarts: +$("restarts").value, step: null });
    $("plane").onchange = () => change({ plane: $("plane").value, step: null });
    $("controls").onsubmit = (event) => event.preventDefault();
  }

  // The tasks to choose from, and the nets that cannot be opened.
  fill() {
    const { tasks, problems } = this.app.nets;
    $("task").replaceChildren(...options(Object.entries(tasks).map(([name, task]) => [name, task.title])));
    const counted = problems.length === 1 ? "1 net" : `${problems.length} nets`;
    $("problems").hidden = !problems.length;
    $("problems").replaceChildren(
      el("summary", {}, `${counted} in these folders cannot be opened`),
      el("ul", {}, ...problems.map((problem) => el("li", {}, problem))),
    );
  }

  // Call back with a number that the field allows; show an error for any other.
  number(id, call) {
    $(id).onchange = () => {
      if ($(id).checkValidity()) call(+$(id).value);
      else this.app.showError(`${$(id).labels[0].textContent.trim()}: ${$(id).validationMessage}`);
    };
  }

  chooseDifficulty(difficulty) {
    change({
      input: { ...INPUT, difficulty, seed: state.input.seed, digit: state.input.digit },
      steps: this.app.usualSteps(difficulty),
      step: null,
    });
  }

  chooseStop(value) {
    const tol = value.startsWith("tol:") ? +value.slice(4) : 0;
    change({ tol, until: tol ? null : value || null, step: null });
  }

  // The conditions to choose from; one of a link that is not among them is added.
  showStops(task) {
    const offered = STOPS[task.answers];
    const chosen = state.tol ? `tol:${state.tol}` : (state.until ?? "");
    const all = offered.some(([value]) => value === chosen) ? offered : [...offered, [chosen, chosen.replace("tol:", "residual ").replaceAll(":", " ")]];
    const text = JSON.stringify(all);
    if (text !== this.stopText) $("stop").replaceChildren(...options(all));
    this.stopText = text;
    $("stop").value = chosen;
  }

  chooseStart(kind) {
    change({ start: { ...state.start, kind }, step: null });
  }

  // Fill the form from the state.
  show() {
    const task = this.app.nets.tasks[state.task];
    $("task").value = state.task;
    Object.assign($("difficulty"), { min: task.lowest, max: task.highest, step: this.stride(task) });
    $("difficulty").value = state.input.difficulty;
    $("difficulties").replaceChildren(...options(task.tested.map((value) => [value, value])));
    $("word").textContent = task.word;
    $("difficulty-label").dataset.tip = `${task.unit[0].toUpperCase()}${task.unit.slice(1)}; trained on ${task.trained.join(", ")}.`;
    $("seed").value = state.input.seed;
    $("digit-label").hidden = task.drawing !== "digit";
    $("digit").value = state.input.digit ?? "";
    const { flips, begin, end } = state.input;
    const editable = Boolean(task.edits) && task.drawing !== "digit";
    $("undo").hidden = !editable;
    $("undo").disabled = !(flips.length || begin !== null || end !== null);
    $("start").value = state.start.kind;
    $("scale").value = state.start.scale;
    $("start-seed").value = state.start.seed;
    $("scale-label").hidden = state.start.kind !== "noise";
    $("start-seed-label").hidden = !["noise", "other", "attack"].includes(state.start.kind);
    $("solver").value = state.solver;
    $("steps").value = state.steps;
    this.showStops(task);
    $("solver-label").dataset.tip = TERMS[$("solver").selectedOptions[0]?.text] ?? "A solver.";
    $("plane-label").dataset.tip = TERMS[`${state.plane} plane`];
    $("restarts").value = String(state.restarts);
    $("plane").value = state.plane;
    if (this.app.frozen) this.freeze(this.app.transport.view(state.task));
    for (const pane of this.app.panes) {
      this.showNet(pane);
      pane.showZoom();
    }
    document.body.dataset.drawing = task.drawing;
    document.body.dataset.editable = String(!this.app.frozen && editable);
    document.body.dataset.single = String(!state.nets[1]);
  }

  // Disable the choices that were not recorded.
  freeze(view) {
    for (const id of FIXED) $(id).disabled = true;
    for (const [id, recorded] of [["start", view.starts], ["solver", view.solvers]]) {
      for (const option of $(id).options) option.hidden = option.disabled = !recorded.includes(option.value);
    }
    $("new").disabled = view.seeds.length < 2;
  }

  stride(task) {
    return Number.isInteger(task.stride) && Number.isInteger(task.lowest) && task.drawing !== "digit" ? task.stride : "any";
  }

  showNet(pane) {
    const nets = this.app.nets.nets.filter((net) => net.task === state.task);
    const text = nets.map((net) => net.path).join("\n");
    if (pane.netText !== text) {
      pane.netText = text;
      const none = pane.number ? [["", "no second net"]] : [];
      pane.choice.replaceChildren(...options([...nets.map((net) => [net.path, called(net)]), ...none]));
    }
    pane.choice.value = state.nets[pane.number] ?? "";
    pane.compare.hidden = Boolean(pane.number || state.nets[1]) || nets.length < 2;
    const net = nets.find((one) => one.path === state.nets[pane.number]);
    if (net?.alignment == null) pane.known.replaceChildren(net ? "AA was not measured" : "");
    else pane.known.replaceChildren(term("AA"), ` ${net.alignment.toFixed(3)} in its evaluation`);
  }
}
