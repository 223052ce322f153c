// A view as the part of an address after "#", and back. It is readable, so that you can write links yourself.

import { INPUT, SIDES, state } from "./state.js";

const NUMBERS = ["begin", "end", "digit"];

// Places as differences in base 36: 12.1.1.k
const packed = (places) => {
  let before = 0;
  return [...places].sort((a, b) => a - b).map((place) => {
    const gap = place - before;
    before = place;
    return gap.toString(36);
  }).join(".");
};

const unpacked = (text) => {
  let at = 0;
  return text.split(".").filter(Boolean).map((gap) => (at += parseInt(gap, 36))).filter(Number.isFinite);
};

export function toHash(step) {
  if (state.tab !== "explore") return `#tab=${state.tab}`;
  const { input, start } = state;
  const fields = {
    task: state.task,
    left: state.nets[0],
    right: state.nets[1] ?? "none",
    difficulty: input.difficulty,
    seed: input.seed,
    flips: input.flips.length ? packed(input.flips) : null,
    begin: input.begin,
    end: input.end,
    digit: input.digit,
    start: start.kind,
    scale: start.kind === "noise" ? start.scale : null,
    which: ["noise", "other", "attack"].includes(start.kind) ? start.seed : null,
    solver: state.solver,
    steps: state.steps,
    tol: state.tol || null,
    until: state.until,
    restarts: state.restarts,
    plane: state.plane,
    zoom: state.zoom.flatMap((zoomed, i) => (zoomed ? [SIDES[i]] : [])).join(",") || null,
    step,
  };
  const present = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined);
  return `#${present.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2F", "/")}`).join("&")}`;
}

// The view that a hash describes, with defaults for missing fields; {} for an empty hash.
export function fromHash(hash) {
  const given = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  const number = (name, other) => (name in given && given[name] !== "" && Number.isFinite(+given[name]) ? +given[name] : other);
  if (given.tab && given.tab !== "explore") return { tab: given.tab === "studies" ? "figures" : given.tab }; // older links
  if (!given.task) return {};
  const input = { ...INPUT, difficulty: number("difficulty", null), seed: number("seed", 0), flips: unpacked(given.flips ?? "") };
  for (const name of NUMBERS) input[name] = number(name, null);
  return {
    tab: "explore",
    task: given.task,
    nets: [given.left ?? null, given.right ?? null],
    input,
    start: { kind: given.start ?? "usual", scale: number("scale", 1), seed: number("which", 0) },
    solver: given.solver ?? "picard",
    steps: number("steps", null),
    tol: number("tol", 0),
    until: given.until || null,
    restarts: number("restarts", number("others", 5)), // "others" in older links
    plane: given.plane ?? "principal",
    zoom: SIDES.map((side) => (given.zoom ?? "").split(",").includes(side)),
    step: number("step", null),
  };
}
