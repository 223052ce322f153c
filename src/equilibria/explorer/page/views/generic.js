// Any task: the input, the answer, the target and the difference as maps, or the probabilities of classes.

import { bytes, short } from "../dom.js";
import { mixed, series } from "../theme.js";

const [HEAD, GAP, FLATTEST] = [20, 12, 16]; // pixels above a map, between two maps, and of the highest row of a flat one

const read = (map) => (map?.levels || map?.colours ? { ...map, levels: bytes(map.levels ?? ""), colours: map.colours ? bytes(map.colours) : null } : map);

export function prepared(drawing) {
  return { ...drawing, input: read(drawing.input), target: read(drawing.target) };
}

function heat(level, colours) {
  if (level === 0) return colours.bad; // not finite
  const value = (level - 128) / 127;
  return value < 0 ? mixed(colours.open, colours.left, -value) : mixed(colours.open, colours.mid, value);
}

const bit = (share, colours) => mixed(colours.open, colours.text, 0.08 + 0.84 * share);
const ofClass = (number, colours) => series(number, colours);

// The maps to draw: [name, number of columns, number of places, colour of a place].
function maps(input, answer, colours) {
  const { reading, input: x, target } = input;
  const found = [["input", x, (i) => (x.colours ? rgb(x.colours, i) : heat(x.levels[i], colours))]];
  if (reading === "probabilities") return found;
  const blank = () => colours.open;
  if (reading === "numbers") {
    found.push(["answer", target, answer ? (i) => heat(answer[i], colours) : blank]);
    found.push(["target", target, (i) => heat(target.levels[i], colours)]);
    const off = (i) => (answer[i] === 0 ? 1 : Math.min(1, Math.abs(answer[i] - target.levels[i]) / 64));
    found.push(["difference", target, answer ? (i) => mixed(colours.open, colours.bad, off(i)) : blank]);
    return found;
  }
  const shade = reading === "classes" ? (value) => ofClass(value, colours) : (value) => bit(value / 127, colours);
  const scale = reading === "classes" ? 1 : 127; // of the target
  found.push(["answer", target, answer ? (i) => shade(answer[i] & 127) : blank]);
  found.push(["target", target, (i) => shade(target.levels[i] * scale)]);
  found.push(["difference", target, answer ? (i) => (answer[i] >> 7 ? colours.bad : mixed(colours.open, colours.good, 0.35)) : blank]);
  return found;
}

const rgb = (pixels, i) => `#${[0, 1, 2].map((part) => pixels[3 * i + part].toString(16).padStart(2, "0")).join("")}`;

function one(g, { x, y, w, h }, [name, map, colour], colours) {
  label(g, name, x, y + HEAD - 7, colours);
  if (!map?.places) return label(g, `${(map?.count ?? 0).toLocaleString("en")} numbers: too many to draw`, x, y + HEAD + 14, colours);
  const rows = Math.ceil(map.places / map.columns);
  const wide = Math.min(w / map.columns, (h - HEAD) / rows);
  const high = Math.min((h - HEAD) / rows, Math.max(wide, Math.min(FLATTEST, (h - HEAD) / rows)));
  const gap = wide > 12 ? 1 : -0.4;
  for (let i = 0; i < map.places; i++) {
    g.fillStyle = colour(i);
    g.fillRect(x + (i % map.columns) * wide, y + HEAD + Math.floor(i / map.columns) * high, wide - gap, high - gap);
  }
  return null;
}

function label(g, text, x, y, colours) {
  Object.assign(g, { font: "12px system-ui, sans-serif", textAlign: "left", textBaseline: "alphabetic", fillStyle: colours.soft });
  g.fillText(text, x, y);
}

export function draw(g, box, input, answer, colours) {
  const all = maps(input, answer, colours);
  const across = all.length > 1 ? 2 : 1;
  const [w, h] = [(box.w - (across - 1) * GAP) / across, (box.h - GAP) / 2];
  all.forEach((map, i) => {
    const place = { x: box.x + (i % across) * (w + GAP), y: box.y + Math.floor(i / across) * (h + GAP), w, h };
    one(g, place, map, colours);
  });
  if (input.reading === "probabilities") bars(g, { x: box.x, y: box.y + h + GAP, w: box.w, h }, input, answer, colours);
}

function bars(g, box, input, answer, colours) {
  const wide = box.w / input.classes;
  const [base, high] = [box.y + box.h - 20, box.h - 44];
  const best = answer ? answer.indexOf(Math.max(...answer)) : -1;
  label(g, "probability of each class", box.x, box.y + HEAD - 7, colours);
  for (let i = 0; i < input.classes; i++) {
    const share = answer ? answer[i] / 255 : 0;
    g.fillStyle = colours.open;
    g.fillRect(box.x + i * wide + 1, base - high, wide - 2, high);
    g.fillStyle = i === input.label ? colours.good : i === best ? colours.bad : colours.soft;
    g.fillRect(box.x + i * wide + 1, base - high * share, wide - 2, high * share);
    if (wide < 14) continue;
    Object.assign(g, { textAlign: "center", fillStyle: i === input.label ? colours.good : colours.text });
    g.fillText(String(i), box.x + (i + 0.5) * wide, base + 15);
  }
}

export const placeAt = () => null;
export const columns = (input) => input.target?.columns ?? 1;
export const places = () => 0;
export const described = () => "";

export function summary(input, answer, score) {
  if (input.reading === "probabilities") {
    const best = answer.indexOf(Math.max(...answer));
    return { text: `class ${best} with probability ${Math.round((100 * answer[best]) / 255)}%`, wrong: best === input.label ? 0 : 1 };
  }
  if (input.reading === "numbers" || !answer.length) return { text: `score ${short(score)}`, wrong: 0 };
  const wrong = answer.reduce((sum, value) => sum + (value >> 7), 0);
  return { text: `${answer.length - wrong} of ${answer.length} places right`, wrong };
}
