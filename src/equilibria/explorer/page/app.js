// The page: two panes, one input, one player. Everything on it follows from `state`.

import { anySeed, Controls } from "./controls.js";
import { $ } from "./dom.js";
import { showFigures } from "./figures.js";
import { attachKeys } from "./keys.js";
import { fromHash, toHash } from "./link.js";
import { mount, Pane } from "./pane.js";
import { Player } from "./player.js";
import { attachSave } from "./save.js";
import { connected } from "./source.js";
import { change, changeInput, INPUT, onChange, state } from "./state.js";
import { onTheme, toggleTheme } from "./theme.js";
import { attachTips, term } from "./tips.js";
import { loadOwnViews } from "./views/index.js";

const TASK = "mazes"; // the first task, if it has a net

class App {
  constructor(nets, transport, frozen) {
    this.nets = nets;
    this.transport = transport;
    this.frozen = frozen; // a recording, whose inputs cannot be edited
    this.panes = [0, 1].map((number) => new Pane(number, this));
    mount(this.panes);
    this.player = new Player(this);
    this.controls = new Controls(this);
    this.dirty = true;
    attachKeys(this);
    attachSave(this);
    attachTips();
    $("more").onclick = () => $("more").setAttribute("aria-expanded", String($("more").ariaExpanded !== "true"));
    onTheme(() => (state.tab === "figures" ? showFigures(this) : this.arrived()));
    onChange((solve) => this.changed(solve));
    new ResizeObserver(() => this.arrived()).observe($("panes"));
    addEventListener("hashchange", () => location.hash !== this.hash && this.follow(location.hash));
    this.follow(location.hash);
    requestAnimationFrame((now) => this.loop(now));
  }

  // Show the view of a link, or of the browser's history, to which it belongs already.
  follow(hash) {
    this.following = true;
    this.open(hash);
    this.following = false;
  }

  // Show the view that a link describes; its missing fields get defaults.
  open(hash) {
    const view = fromHash(hash);
    if (view.tab && view.tab !== "explore") return this.showTab(view.tab);
    const unknown = view.task && !this.nets.tasks[view.task] ? view.task : null;
    if (unknown) delete view.task;
    const task = view.task ?? (this.nets.tasks[TASK] ? TASK : Object.keys(this.nets.tasks)[0]);
    const begin = this.beginning(task);
    if (!view.task) {
      change({ ...begin, tab: "explore" });
      this.notice = unknown ? `There is no net for the task ${unknown} in these folders.` : "";
      return this.showNotes();
    }
    view.nets = view.nets.map((net, i) => (net === "none" ? null : (net ?? begin.nets[i])));
    view.input.difficulty ??= begin.input.difficulty;
    view.steps ??= this.usualSteps(view.input.difficulty, view.nets);
    return change(view);
  }

  // The view that a task opens with.
  beginning(task) {
    const { first, pair, seed: usual } = this.nets.tasks[task];
    const seed = this.frozen ? this.transport.seeds(task)[0] : usual;
    const difficulty = this.frozen ? this.transport.view(task).difficulty : first;
    const steps = this.frozen ? this.transport.view(task).steps : this.usualSteps(difficulty, pair);
    const nets = [pair[0], pair[1] ?? null]; // a folder with one net shows one pane
    return { task, nets, input: { ...INPUT, difficulty, seed }, steps, tol: 0, until: null, step: null };
  }

  // The most steps that either net was evaluated with at this difficulty, or at the nearest one.
  usualSteps(difficulty, nets = state.nets) {
    const known = nets.map((path) => this.nets.nets.find((net) => net.path === path)?.steps ?? {});
    const found = known.flatMap((steps) => Object.entries(steps).map(([at, count]) => [Math.abs(at - difficulty), count]));
    if (!found.length) return 200;
    const nearest = Math.min(...found.map(([gap]) => gap));
    return Math.max(...found.filter(([gap]) => gap === nearest).map(([, count]) => count));
  }

  chooseTask(task) {
    change(this.beginning(task));
  }

  chooseNet(number, path) {
    change({ nets: state.nets.map((net, i) => (i === number ? path || null : net)), step: null }, number);
  }

  // Show a second net: the one of the default pair that is not shown yet, or any other.
  compare() {
    const others = this.nets.nets.filter((net) => net.task === state.task && net.path !== state.nets[0]).map((net) => net.path);
    const [path] = [...this.nets.tasks[state.task].pair.filter((one) => others.includes(one)), ...others];
    this.chooseNet(1, path);
  }

  newInput() {
    const seed = this.frozen ? this.transport.nextSeed(state.task, state.input.seed) : anySeed();
    changeInput({ ...INPUT, difficulty: state.input.difficulty, digit: state.input.digit, seed });
  }

  changed(solve) {
    this.showTab(state.tab, false);
    this.controls.show();
    this.notice = "";
    if (solve !== null) {
      this.panes.forEach((pane, i) => {
        if (solve === "all" || solve === i) pane.solve();
      });
      this.player.restart(state.step);
    }
    this.showSentence();
    this.showNotes();
    this.writeLink();
  }

  // Put the view into the address. Another task, net, input, start or solver is a new entry of the browser's history.
  writeLink() {
    this.hash = toHash(this.player.playing ? null : this.player.step);
    const { tab, task, nets, input, start, solver } = state;
    const entry = JSON.stringify(tab === "explore" ? [task, nets, input.difficulty, input.seed, start, solver] : tab);
    const isNew = !this.following && this.entry !== undefined && entry !== this.entry;
    this.entry = entry;
    history[isNew ? "pushState" : "replaceState"](null, "", this.hash);
  }

  stepped() {
    this.writeLink();
  }

  // Draw again soon.
  arrived() {
    this.dirty = true;
  }

  loop(now) {
    this.player.advance(now);
    // At most about 30 times a second, to leave the processor to the solves.
    const changed = this.dirty || this.player.step !== this.drawnStep;
    if (changed && state.tab === "explore" && now - (this.drawnAt ?? 0) > 30) {
      [this.dirty, this.drawnStep, this.drawnAt] = [false, this.player.step, now];
      for (const pane of this.panes) pane.draw(this.player.step);
      this.player.draw();
    }
    requestAnimationFrame((next) => this.loop(next));
  }

  // The last step of the longer solve.
  total() {
    const ends = this.shownPanes().map((pane) => (pane.main?.done ? pane.main.last : state.steps));
    return Math.max(1, ...ends);
  }

  // The last step that both nets have reached, ignoring a net that has stopped.
  arrivedSteps() {
    const steps = this.shownPanes().map((pane) => (pane.main?.done || pane.trouble ? Infinity : (pane.main?.last ?? 0)));
    return Math.max(0, Math.min(this.total(), ...steps));
  }

  finished() {
    return this.shownPanes().every((pane) => pane.main?.done || pane.trouble);
  }

  shownPanes() {
    return this.panes.filter((pane) => state.nets[pane.number]);
  }

  // One sentence that says what is seen.
  showSentence() {
    const task = this.nets.tasks[state.task];
    const count = this.shownPanes().length > 1 ? "Two nets solve" : "A net solves";
    const trained = task.trained.length > 1 ? `${task.trained[0]} to ${task.trained.at(-1)}` : task.trained[0];
    const word = task.word.toLowerCase();
    const named = (value) => (word === task.unit ? `${value} ${word}` : `${word} ${value}`); // 64 bits, size 25
    const whose = this.shownPanes().length > 1 ? "their" : "its";
    const start = { usual: `${whose} usual start`, zeros: "zeros", noise: "noise", other: "the limit of another input", attack: "an adversarial start" };
    const same = this.shownPanes().length > 1 ? "the same input" : "an input";
    $("seen").replaceChildren(
      `${count} ${same} step by step (${task.title.toLowerCase()}, ${named(state.input.difficulty)}; trained on ${named(trained)}), from ${start[state.start.kind] ?? ""}. A `,
      term("path independent"), " net reaches the same answer from every ", term("start"), ".",
    );
  }

  // Show remarks about the input, and errors.
  showNotes() {
    const task = this.nets.tasks[state.task];
    const trouble = this.panes.map((pane) => pane.trouble).find(Boolean) || this.notice;
    const alike = task.unmeasured || task.path_dependent ? "" : "Every net here was measured to be path independent on this task.";
    $("hint").textContent = [this.panes[0].note || this.panes[1].note, this.frozen ? "" : task.edits, alike].filter(Boolean).join(" ");
    $("hint").classList.toggle("noted", Boolean(this.panes[0].note || this.panes[1].note));
    if (trouble) this.showError(trouble);
    else $("message").hidden = true;
  }

  showError(text) {
    $("message").textContent = text;
    $("message").hidden = false;
  }

  showTab(tab, write = true) {
    const known = tab === "figures" && !this.frozen ? "figures" : "explore";
    if (write && state.tab === "explore" && state.task) this.explored = toHash(this.player.playing ? null : this.player.step);
    if (write) state.tab = known;
    for (const name of ["explore", "figures"]) {
      $(name).hidden = name !== known;
      $(`tab-${name}`).setAttribute("aria-selected", String(name === known));
      $(`tab-${name}`).tabIndex = name === known ? 0 : -1;
    }
    for (const id of ["save", "share"]) $(id).disabled = known !== "explore";
    if (known === "figures" && write) {
      for (const pane of this.panes) pane.stop();
      showFigures(this);
    }
    if (known === "explore" && write) this.open(state.task ? this.explored : "");
    if (write) this.writeLink();
  }

  // The nets as they are now: more runs may have finished since the page was opened.
  async updateNets(nets) {
    await loadOwnViews(nets.tasks);
    this.nets = nets;
    this.controls.fill();
  }

  // Open a net of a figure, with its AA score there, beside the net of the default pair whose AA differs more.
  openNet(path, alignment = null) {
    const known = (one) => this.nets.nets.find((net) => net.path === one);
    const net = known(path);
    if (!net) return this.showError(`The net ${path} is not in the folders of this explorer.`);
    const begin = this.beginning(net.task);
    const own = net.alignment ?? alignment ?? 1;
    const unlike = (one) => Math.abs((known(one)?.alignment ?? 0) - own);
    const [other] = begin.nets.filter((one) => one && one !== path).sort((a, b) => unlike(b) - unlike(a));
    const nets = [path, other ?? null];
    return change({ ...begin, nets, tab: "explore", steps: this.usualSteps(begin.input.difficulty, nets) });
  }
}

function attachTop(app) {
  $("theme").onclick = toggleTheme;
  $("help").onclick = () => $("keys").showModal();
  $("tab-explore").onclick = () => app.showTab("explore");
  $("tab-figures").onclick = () => app.showTab("figures");
  $("tab-figures").hidden = app.frozen;
  document.querySelector(".tabs").onkeydown = (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = state.tab === "explore" && !app.frozen ? "figures" : "explore";
    app.showTab(other);
    $(`tab-${other}`).focus();
  };
}

try {
  const { nets, transport, frozen } = await connected((open) => {
    const before = document.body.dataset.connected;
    document.body.dataset.connected = String(open);
    if (!open) window.explorer?.showError("The connection to the server was lost. Reconnecting …");
    else if (before === "false" && state.tab === "explore") window.explorer?.changed("all"); // the interrupted solves
  });
  await loadOwnViews(nets.tasks);
  window.explorer = new App(nets, transport, frozen);
  attachTop(window.explorer);
  document.body.dataset.ready = "true";
} catch (error) {
  $("message").textContent = `The explorer could not start: ${error.message}`;
  $("message").hidden = false;
}
