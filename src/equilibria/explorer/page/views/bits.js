// Bits, and the parity that a net answers at each of them.

import { bytes } from "../dom.js";
import { mixed, parts, readableOn } from "../theme.js";

export function prepared(drawing) {
  return { bits: bytes(drawing.bits), target: bytes(drawing.target) };
}

// The length of a row: a power of two, so that the rows form a square or nearly one.
export function columns({ bits }) {
  const wide = 2 ** Math.ceil(Math.log2(Math.sqrt(bits.length)));
  return Math.max(1, Math.min(bits.length, wide));
}

function laidOut(input, box) {
  const across = columns(input);
  const down = Math.ceil(input.bits.length / across);
  const size = Math.min(box.w / across, box.h / down);
  return { across, size, x: box.x + (box.w - size * across) / 2, y: box.y + (box.h - size * down) / 2 };
}

export function draw(g, box, input, answer, colours, cursor) {
  const { across, size, x: left, y: top } = laidOut(input, box);
  const gap = Math.min(3, size * 0.07);
  const words = size >= 22;
  g.textAlign = "center";
  g.textBaseline = "middle";
  for (let i = 0; i < input.bits.length; i++) {
    const [x, y] = [left + (i % across) * size + gap, top + Math.floor(i / across) * size + gap];
    const side = size - 2 * gap;
    const head = side * 0.3; // the input is above the answer
    const above = input.bits[i] ? colours.text : mixed(colours.open, colours.soft, 0.15);
    g.fillStyle = above;
    g.fillRect(x, y, side, head);
    let colour = colours.open;
    if (answer) {
      const [one, wrong] = [(answer[i] & 127) / 127, answer[i] >> 7];
      const sure = Math.abs(one - 0.5) * 2;
      const base = wrong ? colours.bad : colours.good;
      colour = mixed(colours.open, one > 0.5 ? base : mixed(base, colours.wall, 0.62), 0.25 + 0.75 * sure);
    }
    g.fillStyle = colour;
    g.fillRect(x, y + head, side, side - head);
    if (words) {
      g.font = `600 ${Math.round(head * 0.8)}px system-ui, sans-serif`;
      g.fillStyle = readableOn(above);
      g.fillText(String(input.bits[i]), x + side / 2, y + head * 0.54);
      if (answer) {
        g.font = `600 ${Math.round(side * 0.36)}px system-ui, sans-serif`;
        g.fillStyle = readableOn(colour);
        g.fillText((answer[i] & 127) > 63 ? "1" : "0", x + side / 2, y + head + (side - head) * 0.54);
      }
    }
    if (cursor === i) {
      g.strokeStyle = colours.this;
      g.lineWidth = 2;
      g.strokeRect(x, y, side, side);
    }
  }
}

// The colour of a bit in the picture of all answers: [red, green, blue].
export function pixel(value, colours) {
  const base = value >> 7 ? colours.bad : colours.good;
  const colour = (value & 127) > 63 ? base : mixed(base, colours.wall, 0.62);
  return parts(colour);
}

export function placeAt(input, box, x, y) {
  const { across, size, x: left, y: top } = laidOut(input, box);
  const [column, row] = [Math.floor((x - left) / size), Math.floor((y - top) / size)];
  const place = row * across + column;
  return column >= 0 && column < across && row >= 0 && place < input.bits.length ? place : null;
}

export const places = (input) => input.bits.length;
export const grip = () => "flip";
export const drawsTo = (input, place) => 1 - input.bits[place];
export const valueAt = (input, place) => input.bits[place];
export const mayFlip = () => true;
export const described = (input, place) => `bit ${place + 1} is ${input.bits[place]}, its prefix parity is ${input.target[place]}`;

export function summary(input, answer) {
  const wrong = answer.reduce((sum, value) => sum + (value >> 7), 0);
  return { text: `${answer.length - wrong} of ${answer.length} bits right`, wrong };
}
