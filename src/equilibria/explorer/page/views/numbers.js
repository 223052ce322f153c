// Tables of numbers as heat maps: the input, the answer, the target, and the error.

import { bytes, short } from "../dom.js";
import { mixed } from "../theme.js";

export function prepared(drawing) {
  return { ...drawing, values: bytes(drawing.values), target: bytes(drawing.target) };
}

function heat(level, colours) {
  if (level === 0) return colours.bad; // not finite
  const value = (level - 128) / 127;
  return value < 0 ? mixed(colours.open, colours.left, -value) : mixed(colours.open, colours.mid, value);
}

// Four maps, two by two.
function quarter(box, number) {
  const head = 20;
  const size = Math.min(box.w / 2 - 10, box.h / 2 - head - 8);
  const [column, row] = [number % 2, Math.floor(number / 2)];
  const x = box.x + box.w / 2 + (column ? 6 : -size - 6);
  return { x, y: box.y + 4 + row * (size + head + 8) + head, size };
}

export function draw(g, box, input, answer, colours, cursor) {
  const maps = [
    ["input", (i) => heat(input.values[i], colours)],
    ["answer", (i) => (answer ? heat(answer[i], colours) : colours.open)],
    ["target", (i) => heat(input.target[i], colours)],
    ["error", (i) => {
      const off = answer ? Math.min(1, Math.abs(answer[i] - input.target[i]) / 64) : 0;
      return answer && answer[i] === 0 ? colours.bad : mixed(colours.open, colours.bad, off);
    }],
  ];
  maps.forEach(([name, colour], number) => {
    const { x, y, size } = quarter(box, number);
    const dot = size / input.side;
    g.font = "12px system-ui, sans-serif";
    g.textAlign = "left";
    g.textBaseline = "alphabetic";
    g.fillStyle = colours.soft;
    g.fillText(name, x, y - 6);
    for (let i = 0; i < input.values.length; i++) {
      g.fillStyle = colour(i);
      g.fillRect(x + (i % input.side) * dot, y + Math.floor(i / input.side) * dot, dot + 0.4, dot + 0.4);
    }
    if (cursor !== null && cursor !== undefined && number === 0) {
      g.strokeStyle = colours.this;
      g.lineWidth = 2;
      g.strokeRect(x + (cursor % input.side) * dot, y + Math.floor(cursor / input.side) * dot, dot, dot);
    }
  });
}

export function placeAt(input, box, x, y) {
  const { x: left, y: top, size } = quarter(box, 0);
  const [column, row] = [Math.floor(((x - left) / size) * input.side), Math.floor(((y - top) / size) * input.side)];
  return column >= 0 && row >= 0 && column < input.side && row < input.side ? row * input.side + column : null;
}

const value = (input, place) => ((input.values[place] - 128) / 127) * input.inside;
export const columns = (input) => input.side;
export const places = (input) => input.values.length;
export const grip = () => "flip";
export const drawsTo = (input, place) => (input.values[place] > 128 ? 0 : 1);
export const valueAt = (input, place) => (input.values[place] > 128 ? 1 : 0);
export const mayFlip = () => true;
export const described = (input, place) =>
  `row ${Math.floor(place / input.side) + 1}, column ${(place % input.side) + 1}: ${short(value(input, place))}`;
export const summary = (input, answer, score) => ({ text: `mean squared error ${short(score)}`, wrong: 0 });
