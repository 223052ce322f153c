// The state of the page: one plain object, and the listeners to its changes.

export const SIDES = ["left", "right"];
export const INPUT = { difficulty: 0, seed: 0, flips: [], begin: null, end: null, digit: null };

export const state = {
  tab: "explore",
  task: null,
  nets: [null, null],
  input: { ...INPUT },
  start: { kind: "usual", scale: 1, seed: 0 },
  solver: "picard",
  steps: 100,
  tol: 0, // of the residual; 0: none
  until: null, // another condition that stops a solve: "unchanged:4", "confident:0.99" or "cycling"
  restarts: 5, // from other inputs; -1: no diagnosis
  plane: "principal",
  zoom: [false, false], // whether the limits are enlarged
  step: null, // to show; null: play from the beginning
};

const listeners = [];
export const onChange = (listener) => listeners.push(listener);

// Change fields. `solve` says which panes solve again: "all", a pane's number, or null.
export function change(fields, solve = "all") {
  Object.assign(state, fields);
  for (const listener of listeners) listener(solve);
}

export function changeInput(fields) {
  change({ input: { ...state.input, ...fields }, step: null });
}

// A condition as the server knows it: an object of equilibria.core.conditions with its fields.
function condition(text) {
  const [kind, value, within] = text.split(":");
  if (kind === "unchanged") return { kind, steps: +value, ...(within ? { within: +within } : {}) };
  return kind === "confident" ? { kind, probability: +value } : { kind };
}

// A request for the server, without the fields that were not chosen.
export function request(pane, what) {
  const input = Object.fromEntries(
    Object.entries(state.input).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)),
  );
  const start = { kind: state.start.kind };
  if (state.start.kind === "noise") start.scale = state.start.scale;
  if (["noise", "other", "attack"].includes(state.start.kind)) start.seed = state.start.seed;
  const fields = { net: state.nets[pane], what, input, start, solver: state.solver, steps: state.steps, tol: state.tol };
  if (state.until) fields.until = condition(state.until);
  return what === "think" ? fields : { ...fields, restarts: Math.max(0, state.restarts), noises: 2, plane: state.plane };
}
