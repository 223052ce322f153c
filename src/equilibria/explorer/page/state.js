// What the page shows: one plain object, and who wants to know when it changes.

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
  tol: 0,
  others: 5, // -1: no diagnosis
  plane: "principal",
  zoom: [false, false], // whether the ends of trajectories are seen from near
  step: null, // where the player is to stand; null: it plays from the beginning
};

const listeners = [];
export const onChange = (listener) => listeners.push(listener);

// Change fields. `solve` says which panes have to think again: "all", a pane's number, or null.
export function change(fields, solve = "all") {
  Object.assign(state, fields);
  for (const listener of listeners) listener(solve);
}

export function changeInput(fields) {
  change({ input: { ...state.input, ...fields }, step: null });
}

// A request for the server. Numbers that were not chosen are left out.
export function request(pane, what) {
  const input = Object.fromEntries(
    Object.entries(state.input).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length)),
  );
  const start = { kind: state.start.kind };
  if (state.start.kind === "noise") start.scale = state.start.scale;
  if (["noise", "other", "attack"].includes(state.start.kind)) start.seed = state.start.seed;
  const asked = { net: state.nets[pane], what, input, start, solver: state.solver, steps: state.steps, tol: state.tol };
  return what === "think" ? asked : { ...asked, others: Math.max(0, state.others), noises: 2, plane: state.plane };
}
