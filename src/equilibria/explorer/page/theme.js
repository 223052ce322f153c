// Dark and light theme: that of the system, until the user chooses.

const NAMES = ["back", "panel", "raised", "line", "text", "soft", "faint", "wall", "open", "good", "bad", "mid", "left",
  "right", "begin", "end", "noise", "this", "swapped", ...Array.from({ length: 10 }, (_, i) => `series-${i + 1}`)];
const system = window.matchMedia("(prefers-color-scheme: light)");
let chosen = null;
let known = null;
const listeners = [];

export const theme = () => chosen ?? (system.matches ? "light" : "dark");

function apply() {
  document.documentElement.dataset.theme = theme();
  known = null;
  for (const listener of listeners) listener();
}

export function toggleTheme() {
  chosen = theme() === "dark" ? "light" : "dark";
  apply();
}

export const onTheme = (listener) => listeners.push(listener);

// The colours of the drawings, by name.
export function colours() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    // A colour is #rrggbb or light-dark(#rrggbb, #rrggbb).
    const values = (name) => style.getPropertyValue(`--${name}`).match(/#[0-9a-f]{6}/gi);
    known = Object.fromEntries(NAMES.map((name) => [name, values(name).at(theme() === "light" ? 0 : -1)]));
  }
  return known;
}

// The colour of one of several groups or classes.
export const series = (number, palette) => palette[`series-${(number % 10) + 1}`];

// Red, green and blue of a "#rrggbb" colour, up to 255.
export const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

// Between two colours.
export function mixed(one, other, share) {
  const to = parts(other);
  const mix = parts(one).map((part, i) => Math.round(part + (to[i] - part) * share));
  return `#${mix.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

// The relative luminance of a colour (WCAG).
function luminance(colour) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [red, green, blue] = parts(colour).map((part) => linear(part / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// Black or white, whichever contrasts more with a colour.
export const readableOn = (colour) => (contrast(colour, "#000000") > contrast(colour, "#ffffff") ? "#000000" : "#ffffff");

// The colour of an answer: from all wrong, through half right, to right.
export function ofShare(share, right) {
  const { bad, mid, good, panel, line } = colours();
  if (!Number.isFinite(share)) return line; // not judged
  if (right) return good;
  const wrong = share < 0.5 ? mixed(bad, mid, 2 * share) : mixed(mid, good, 1.4 * (share - 0.5));
  return mixed(panel, wrong, 0.85);
}

system.addEventListener("change", apply);
apply();
