// The form above the panes: input, start, solver, diagnosis.

import { $, el } from "./dom.js";
import { change, changeInput, INPUT, state } from "./state.js";

const options = (pairs) => pairs.map(([value, text]) => el("option", { value, textContent: text }));
// A net is shown by its folder, and by its recipe's name if that says more.
const called = ({ path, name }) => (name && !path.includes(name) ? `${name} (${path})` : path);
const FIXED = ["difficulty", "seed", "digit", "scale", "start-seed", "steps", "tol", "restarts", "plane", "undo"];
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
    $("tol").onchange = () => change({ tol: +$("tol").value, step: null });
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
      else this.app.showError(`${($(id).ariaLabel ?? $(id).labels[0].firstChild.textContent.trim())}: ${$(id).validationMessage}`);
    };
  }

  chooseDifficulty(difficulty) {
    change({
      input: { ...INPUT, difficulty, seed: state.input.seed, digit: state.input.digit },
      steps: this.app.usualSteps(difficulty),
      step: null,
    });
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
    $("difficulty").title = task.unit;
    $("seed").value = state.input.seed;
    $("digit-label").hidden = task.drawing !== "digit";
    $("digit").value = state.input.digit ?? "";
    const { flips, begin, end } = state.input;
    $("undo").hidden = task.drawing === "digit";
    $("undo").disabled = !(flips.length || begin !== null || end !== null);
    $("start").value = state.start.kind;
    $("scale").value = state.start.scale;
    $("start-seed").value = state.start.seed;
    $("scale-label").hidden = state.start.kind !== "noise";
    $("start-seed-label").hidden = !["noise", "other", "attack"].includes(state.start.kind);
    $("solver").value = state.solver;
    $("steps").value = state.steps;
    $("tol").value = String(state.tol);
    $("restarts").value = String(state.restarts);
    $("plane").value = state.plane;
    if (this.app.frozen) this.freeze(this.app.transport.view(state.task));
    for (const pane of this.app.panes) {
      this.showNet(pane);
      pane.showZoom();
    }
    document.body.dataset.drawing = task.drawing;
    document.body.dataset.editable = String(!this.app.frozen && task.drawing !== "digit");
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
      pane.choice.replaceChildren(...options(nets.map((net) => [net.path, called(net)])));
    }
    pane.choice.value = state.nets[pane.number];
    const net = nets.find((one) => one.path === state.nets[pane.number]);
    pane.known.textContent = net?.alignment == null ? "" : `AA ${net.alignment.toFixed(3)} in its evaluation`;
  }
}
