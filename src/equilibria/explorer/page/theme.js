// Dark and light: as the system has it, until somebody chooses.

const NAMES = ["back", "panel", "raised", "line", "text", "soft", "faint", "wall", "open", "good", "bad", "mid", "left",
  "right", "begin", "end", "noise", "this", "swapped"];
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

// The colours that drawings use, by name.
export function colours() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return known;
}

// Between two "#rrggbb" colours.
export function mixed(one, other, share) {
  const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mix = [0, 1, 2].map((i) => Math.round(part(one, i) + (part(other, i) - part(one, i)) * share));
  return `#${mix.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

// How bright a "#rrggbb" colour is, as contrasts are reckoned (WCAG).
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// Black or white: what can be read better on a colour.
export const readableOn = (colour) => (contrast(colour, "#000000") > contrast(colour, "#ffffff") ? "#000000" : "#ffffff");

// From all wrong over half right to right.
export function ofShare(share, right) {
  const { bad, mid, good, panel } = colours();
  if (!Number.isFinite(share)) return mixed(panel, mid, 0.3);
  if (right) return good;
  const wrong = share < 0.5 ? mixed(bad, mid, 2 * share) : mixed(mid, good, 1.4 * (share - 0.5));
  return mixed(panel, wrong, 0.85);
}

system.addEventListener("change", apply);
apply();
