// A drawing of a user's own: how many switches are on.

import { bytes } from "../dom.js";

export const prepared = (drawing) => ({ target: bytes(drawing.target.levels) });
export const draw = (g, box, input, answer, colours) => {
  g.fillStyle = colours.good;
  g.fillRect(box.x, box.y, (box.w * (answer ?? []).filter((value) => (value & 127) > 63).length) / input.target.length, 20);
};
export const placeAt = () => null;
export const columns = () => 1;
export const places = () => 0;
export const described = () => "";
export const summary = (input, answer) => ({ text: `${answer.filter((value) => (value & 127) > 63).length} switches on`, wrong: 0 });
