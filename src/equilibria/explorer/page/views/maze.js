// A maze, and the path that a net marks in it.

import { bytes } from "../dom.js";
import { mixed } from "../theme.js";

export function prepared(drawing) {
  return { ...drawing, open: bytes(drawing.open) };
}

function laidOut({ side }, box) {
  const size = Math.min(box.w, box.h) / side;
  return { size, x: Math.round(box.x + (box.w - size * side) / 2), y: Math.round(box.y + (box.h - size * side) / 2) };
}

export function draw(g, box, input, answer, colours, cursor) {
  const { size, x: left, y: top } = laidOut(input, box);
  const { side, open } = input;
  const at = (place) => [left + (place % side) * size, top + Math.floor(place / side) * size];
  const fill = (place, colour, shrink = 0) => {
    const [x, y] = at(place);
    // Whole pixels, to avoid seams between the places.
    const [x0, y0, x1, y1] = [x, y, x + size, y + size].map(Math.round);
    g.fillStyle = colour;
    g.fillRect(x0 + shrink, y0 + shrink, x1 - x0 - 2 * shrink, y1 - y0 - 2 * shrink);
  };
  g.fillStyle = colours.wall;
  g.fillRect(left, top, size * side, size * side);
  for (let place = 0; place < open.length; place++) {
    if (!open[place]) continue;
    fill(place, colours.open);
    if (!answer) continue;
    const [marked, wrong] = [(answer[place] & 127) / 127, answer[place] >> 7];
    if (marked > 0.04) fill(place, mixed(colours.open, wrong ? colours.bad : colours.good, Math.min(1, 0.1 + 0.9 * marked)));
    // A small mark: the path goes through here, but the net does not mark it.
    if (wrong && marked <= 0.5) fill(place, colours.bad, size * 0.36);
  }
  for (const [place, colour] of [[input.begin, colours.begin], [input.end, colours.end]]) {
    const [x, y] = at(place);
    g.beginPath();
    g.arc(x + size / 2, y + size / 2, Math.max(3, size * 0.62), 0, 2 * Math.PI);
    g.fillStyle = colour;
    g.fill();
    g.strokeStyle = colours.back;
    g.lineWidth = Math.max(1, size * 0.12);
    g.stroke();
  }
  if (cursor !== null && cursor !== undefined) outline(g, ...at(cursor), size, colours);
}

function outline(g, x, y, size, colours) {
  g.strokeStyle = colours.this;
  g.lineWidth = 2;
  g.strokeRect(x - 1, y - 1, size + 2, size + 2);
}

export function placeAt(input, box, x, y) {
  const { size, x: left, y: top } = laidOut(input, box);
  const [column, row] = [Math.floor((x - left) / size), Math.floor((y - top) / size)];
  return column >= 0 && row >= 0 && column < input.side && row < input.side ? row * input.side + column : null;
}

export const columns = (input) => input.side;
export const places = (input) => input.side ** 2;

const inside = ({ side }, place) => {
  const [row, column] = [Math.floor(place / side), place % side];
  return row > 0 && column > 0 && row < side - 1 && column < side - 1;
};

// What a pointer that goes down here does: move the start or the end, or draw walls.
export function grip(input, place) {
  if (place === input.begin) return "begin";
  if (place === input.end) return "end";
  return inside(input, place) ? "flip" : null;
}

export const drawsTo = (input, place) => (input.open[place] ? 0 : 1); // walls, or openings
export const valueAt = (input, place) => input.open[place];
export const mayFlip = (input, place) => inside(input, place) && place !== input.begin && place !== input.end;
export const mayHold = (input, place) => inside(input, place) && input.open[place] === 1;

export function described(input, place) {
  const where = `row ${Math.floor(place / input.side) + 1}, column ${(place % input.side) + 1}`;
  const what = place === input.begin ? "start" : place === input.end ? "end" : input.open[place] ? "open" : "wall";
  return `${what}, ${where}`;
}

export function summary(input, answer) {
  let [marked, wrong] = [0, 0];
  for (let i = 0; i < answer.length; i++) {
    if (input.open[i] && (answer[i] & 127) > 63) marked++;
    wrong += answer[i] >> 7;
  }
  return { text: `${marked} places marked as path`, wrong };
}
