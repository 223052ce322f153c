// A blurred digit, and the probabilities of the ten classes.

import { bytes } from "../dom.js";
import { mixed } from "../theme.js";

export function prepared(drawing) {
  return { ...drawing, picture: bytes(drawing.picture), sharp: bytes(drawing.sharp) };
}

function picture(g, pixels, side, x, y, size, colours) {
  const dot = size / side;
  for (let i = 0; i < pixels.length; i++) {
    g.fillStyle = mixed(colours.wall, "#ffffff", pixels[i] / 255);
    g.fillRect(x + (i % side) * dot, y + Math.floor(i / side) * dot, dot + 0.5, dot + 0.5);
  }
}

export function draw(g, box, input, answer, colours) {
  const size = Math.min(box.w, box.h) * 0.5;
  const [left, top] = [box.x + box.w * 0.04, box.y + box.h * 0.04];
  picture(g, input.picture, input.side, left, top, size, colours);
  const small = size * 0.42;
  picture(g, input.sharp, input.side, left + size + box.w * 0.04, top + size - small, small, colours);
  g.fillStyle = colours.soft;
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.font = "12px system-ui, sans-serif";
  g.fillText(`without blur: ${input.label}`, left + size + box.w * 0.04, top + size - small - 8);
  g.fillText("input of the net", left, top + size + 17);

  const [base, high] = [box.y + box.h * 0.93, box.h * 0.28];
  const wide = (box.w * 0.92) / 10;
  const best = answer ? answer.indexOf(Math.max(...answer)) : -1;
  g.textAlign = "center";
  for (let digit = 0; digit < 10; digit++) {
    const share = answer ? answer[digit] / 255 : 0;
    const x = left + digit * wide;
    g.fillStyle = mixed(colours.wall, colours.open, 0.7);
    g.fillRect(x + 2, base - high, wide - 4, high);
    g.fillStyle = digit === input.label ? colours.good : digit === best ? colours.bad : colours.soft;
    g.fillRect(x + 2, base - high * share, wide - 4, high * share);
    g.fillStyle = digit === input.label ? colours.good : colours.text;
    g.font = `${digit === best ? 700 : 450} 14px system-ui, sans-serif`;
    g.fillText(String(digit), x + wide / 2, base + 17);
    if (share >= 0.01) {
      g.font = "11px system-ui, sans-serif";
      g.fillText(`${Math.round(100 * share)}%`, x + wide / 2, base - high * share - 4);
    }
  }
}

export const placeAt = () => null;
export const columns = () => 10;
export const places = () => 0;
export const described = (input) => `a ${input.label}`;

export function summary(input, answer) {
  const best = answer.indexOf(Math.max(...answer));
  return { text: `${best} with probability ${Math.round((100 * answer[best]) / 255)}%`, wrong: best === input.label ? 0 : 1 };
}
