// The page: two panes, one input, one player. Everything that is shown follows from `state`.

import { anySeed, Controls } from "./controls.js";
import { $ } from "./dom.js";
import { attachKeys } from "./keys.js";
import { fromHash, toHash } from "./link.js";
import { mount, Pane } from "./pane.js";
import { Player } from "./player.js";
import { attachSave } from "./save.js";
import { connected } from "./source.js";
import { change, changeInput, INPUT, onChange, state } from "./state.js";
import { showStudies } from "./studies.js";
import { onTheme, toggleTheme } from "./theme.js";

const TASK = "mazes"; // to begin with, where there is a net for it

class App {
  constructor(nets, transport, frozen) {
    this.nets = nets;
    this.transport = transport;
    this.frozen = frozen; // a recording: inputs cannot be changed by hand
    this.panes = [0, 1].map((number) => new Pane(number, this));
    mount(this.panes);
    this.player = new Player(this);
    this.controls = new Controls(this);
    this.dirty = true;
    attachKeys(this);
    attachSave(this);
    onTheme(() => (state.tab === "studies" ? showStudies(this) : this.arrived()));
    onChange((solve) => this.changed(solve));
    new ResizeObserver(() => this.arrived()).observe($("panes"));
    addEventListener("hashchange", () => location.hash !== this.hash && this.open(location.hash));
    this.open(location.hash);
    requestAnimationFrame((now) => this.loop(now));
  }

  // What a link asks for, and what it leaves open chosen well.
  open(hash) {
    const asked = fromHash(hash);
    if (asked.tab && asked.tab !== "explore") return this.showTab(asked.tab);
    const strange = asked.task && !this.nets.tasks[asked.task] ? asked.task : null;
    if (strange) delete asked.task;
    const task = asked.task ?? (this.nets.tasks[TASK] ? TASK : Object.keys(this.nets.tasks)[0]);
    const begin = this.beginning(task);
    if (!asked.task) {
      change({ ...begin, tab: "explore" });
      this.notice = strange ? `There is no net for the task ${strange} here.` : "";
      return this.noted();
    }
    asked.nets = asked.nets.map((net, i) => net ?? begin.nets[i]);
    asked.input.difficulty ??= begin.input.difficulty;
    asked.steps ??= this.usualSteps(asked.input.difficulty, asked.nets);
    return change(asked);
  }

  // The view that a task opens with.
  beginning(task) {
    const { first, pair, seed: usual } = this.nets.tasks[task];
    const seed = this.frozen ? this.transport.seeds(task)[0] : usual;
    const difficulty = this.frozen ? this.transport.view(task).difficulty : first;
    const steps = this.frozen ? this.transport.view(task).steps : this.usualSteps(difficulty, pair);
    return { task, nets: pair, input: { ...INPUT, difficulty, seed }, steps, step: null };
  }

  // As many steps as the better known of the two nets was evaluated with there, or at the nearest difficulty.
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
    change({ nets: state.nets.map((net, i) => (i === number ? path : net)), step: null }, number);
  }

  newInput() {
    const seed = this.frozen ? this.transport.nextSeed(state.task, state.input.seed) : anySeed();
    changeInput({ ...INPUT, difficulty: state.input.difficulty, digit: state.input.digit, seed });
  }

  changed(solve) {
    this.showTab(state.tab, false);
    this.controls.show();
    this.notice = "";
    $("message").hidden = true;
    if (solve !== null) {
      this.panes.forEach((pane, i) => {
        if (solve === "all" || solve === i) pane.think();
      });
      this.player.restart(state.step);
    }
    this.writeLink();
  }

  writeLink() {
    this.hash = toHash(this.player.playing ? null : this.player.step);
    history.replaceState(null, "", this.hash);
  }

  stepped() {
    this.writeLink();
  }

  // Something new is there to be drawn.
  arrived() {
    this.dirty = true;
  }

  loop(now) {
    this.player.advance(now);
    // Not more often than anybody sees: the solves need the processor more than the drawing does.
    const changed = this.dirty || this.player.step !== this.drawnStep;
    if (changed && state.tab === "explore" && now - (this.drawnAt ?? 0) > 30) {
      [this.dirty, this.drawnStep, this.drawnAt] = [false, this.player.step, now];
      for (const pane of this.panes) pane.draw(this.player.step);
      this.player.draw();
    }
    requestAnimationFrame((next) => this.loop(next));
  }

  // The last step that there will be.
  total() {
    const ends = this.panes.map((pane) => (pane.main?.done ? pane.main.last : state.steps));
    return Math.max(1, ...ends);
  }

  // The last step that both nets have reached, or the farther one where the other has stopped.
  arrivedSteps() {
    const steps = this.panes.map((pane) => (pane.main?.done || pane.trouble ? Infinity : (pane.main?.last ?? 0)));
    return Math.max(0, Math.min(this.total(), ...steps));
  }

  finished() {
    return this.panes.every((pane) => pane.main?.done || pane.trouble);
  }

  // What has to be said of the input, or of what went wrong.
  noted() {
    const task = this.nets.tasks[state.task];
    const trouble = this.panes.map((pane) => pane.trouble).find(Boolean) || this.notice;
    const alike = task.contrast ? "" : "No net here is path dependent on this task.";
    $("hint").textContent = [this.panes[0].note || this.panes[1].note, this.frozen ? "" : task.edits, alike].filter(Boolean).join(" ");
    $("hint").classList.toggle("noted", Boolean(this.panes[0].note));
    if (trouble) this.complain(trouble);
    else $("message").hidden = true;
  }

  complain(text) {
    $("message").textContent = text;
    $("message").hidden = false;
  }

  showTab(tab, write = true) {
    const known = tab === "studies" && !this.frozen ? "studies" : "explore";
    if (write) state.tab = known;
    for (const name of ["explore", "studies"]) {
      $(name).hidden = name !== known;
      $(`tab-${name}`).setAttribute("aria-selected", String(name === known));
      $(`tab-${name}`).tabIndex = name === known ? 0 : -1;
    }
    for (const id of ["save", "share"]) $(id).disabled = known !== "explore";
    if (known === "studies" && write) {
      for (const pane of this.panes) pane.stop();
      showStudies(this);
    }
    if (known === "explore" && write) this.open(state.task ? toHash(null) : "");
    if (write) this.writeLink();
  }

  // The nets as they are now: runs may have been finished since the page was opened.
  found(nets) {
    this.nets = nets;
    this.controls.fill();
  }

  // A net from a study, with the AA score that it has there: beside the one of the usual pair that is less like it.
  openNet(path, alignment = null) {
    const known = (one) => this.nets.nets.find((net) => net.path === one);
    const net = known(path);
    if (!net) return this.complain(`The net ${path} is not in the folders of this explorer.`);
    const begin = this.beginning(net.task);
    const own = net.alignment ?? alignment ?? 1;
    const unlike = (one) => Math.abs((known(one)?.alignment ?? 0) - own);
    const [other] = begin.nets.filter((one) => one !== path).sort((a, b) => unlike(b) - unlike(a));
    const nets = [path, other ?? path];
    return change({ ...begin, nets, tab: "explore", steps: this.usualSteps(begin.input.difficulty, nets) });
  }
}

function attachTop(app) {
  $("theme").onclick = toggleTheme;
  $("help").onclick = () => $("keys").showModal();
  $("tab-explore").onclick = () => app.showTab("explore");
  $("tab-studies").onclick = () => app.showTab("studies");
  $("tab-studies").hidden = app.frozen;
  document.querySelector(".tabs").onkeydown = (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = state.tab === "explore" && !app.frozen ? "studies" : "explore";
    app.showTab(other);
    $(`tab-${other}`).focus();
  };
}

try {
  const { nets, transport, frozen } = await connected((open) => {
    const before = document.body.dataset.connected;
    document.body.dataset.connected = String(open);
    if (!open) window.explorer?.complain("The connection to the server was lost; trying again.");
    else if (before === "false" && state.tab === "explore") window.explorer?.changed("all"); // what was under way is lost
  });
  window.explorer = new App(nets, transport, frozen);
  attachTop(window.explorer);
  document.body.dataset.ready = "true";
} catch (error) {
  $("message").textContent = `The explorer could not be started: ${error.message}`;
  $("message").hidden = false;
}
