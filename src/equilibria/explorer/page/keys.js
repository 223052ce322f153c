// Keyboard shortcuts, which work everywhere except while the user types.

import { $ } from "./dom.js";
import { change, state } from "./state.js";
import { toggleTheme } from "./theme.js";

const EVERYWHERE = ["t", "?"]; // on both tabs

export function attachKeys(app) {
  const { player } = app;
  const offered = (id, value) => [...$(id).options].some((option) => option.value === value && !option.disabled);
  const start = (kind) => () => offered("start", kind) && change({ start: { ...state.start, kind }, step: null });
  const solver = (number) => () => {
    const name = app.nets.solvers[number];
    if (offered("solver", name)) change({ solver: name, step: null });
  };
  const actions = {
    p: () => player.toggle(), " ": () => player.toggle(),
    ",": () => player.go(player.step - 1), ".": () => player.go(player.step + 1),
    "[": () => player.go(player.step - 10), "]": () => player.go(player.step + 10),
    Home: () => player.go(0), End: () => player.go(app.total()),
    n: () => $("new").click(), l: () => $("share").click(), t: toggleTheme, "?": () => $("keys").showModal(),
    1: solver(0), 2: solver(1), 3: solver(2),
    u: start("usual"), z: start("zeros"), r: start("noise"), o: start("other"), a: start("attack"),
  };

  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    if (state.tab !== "explore" && !EVERYWHERE.includes(key.toLowerCase())) return;
    const typing = target.matches("select, textarea, input:not([type=range])");
    const pressing = key === " " && target.matches("button, a, [role=button]");
    const sliding = target.matches("input[type=range]") && (key === "Home" || key === "End");
    const action = actions[key.length === 1 ? key.toLowerCase() : key];
    if (typing || pressing || sliding || !action) return;
    event.preventDefault();
    action();
  });
}
