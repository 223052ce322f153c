// The plots of a diagnosis, drawn on a canvas or an SvgContext.

import { ofShare } from "./theme.js";

const FONT = "11px Inter, system-ui, sans-serif";
const MAX_POINTS = 600; // of a line
export const KINDS = { usual: "usual start", this: "chosen start", noise: "noise", swapped: "another input’s limit" };
const LABELS = { usual: "usual", this: "chosen", noise: "noise", swapped: "other input" };

export const colourOf = (kind, colours) => (kind === "usual" ? colours.good : (colours[kind] ?? colours.soft));

function line(g, points) {
  let drawing = false;
  g.beginPath();
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) drawing = false;
    else if (drawing) g.lineTo(x, y);
    else {
      g.moveTo(x, y);
      drawing = true;
    }
  }
  g.stroke();
}

function title(g, box, text, colours) {
  g.font = FONT;
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.fillStyle = colours.soft;
  g.fillText(text, box.x + 10, box.y + 17);
}

// Lines of residuals: [{ at: step => value, count, colour, width, alpha }] on a log scale.
export function residuals(g, box, lines, steps, at, colours) {
  title(g, box, "residual", colours);
  const [left, right, top, bottom] = [box.x + 40, box.x + box.w - 10, box.y + 28, box.y + box.h - 20];
  let [low, high] = [Infinity, -Infinity];
  for (const { at: valueAt, count } of lines) {
    for (let step = 1; step < count; step++) {
      const value = valueAt(step);
      if (!(value > 0) || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) [low, high] = [1e-6, 1];
  const [from, to] = [Math.floor(Math.log10(Math.max(low, 1e-12))), Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)];
  const x = (step) => left + ((right - left) * step) / Math.max(1, steps);
  const y = (value) => bottom - ((bottom - top) * (Math.log10(value) - from)) / (to - from);
  g.font = FONT;
  g.lineWidth = 1;
  const stride = Math.ceil((to - from) / 5);
  for (let power = from; power <= to; power += stride) {
    g.strokeStyle = colours.line;
    line(g, [[left, y(10 ** power)], [right, y(10 ** power)]]);
    g.fillStyle = colours.faint;
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.fillText(power === 0 ? "1" : `1e${power}`, left - 5, y(10 ** power));
  }
  g.textBaseline = "alphabetic";
  for (const [share, align] of [[0, "left"], [1, "right"]]) {
    g.textAlign = align;
    g.fillText(String(Math.round(steps * share)), x(steps * share), bottom + 14);
  }
  g.textAlign = "center";
  g.fillText("step", (left + right) / 2, bottom + 14);
  for (const { at: valueAt, count, colour, width, alpha } of lines) {
    const stride = Math.max(1, Math.floor(count / MAX_POINTS));
    const points = [];
    for (let step = 1; step < count; step += stride) {
      const value = valueAt(step);
      points.push([x(step), value > 0 ? y(Math.max(value, 10 ** from)) : NaN]);
    }
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.globalAlpha = alpha;
    line(g, points);
  }
  g.globalAlpha = 1;
  marker(g, x(at), top, bottom, colours);
}

function marker(g, x, top, bottom, colours) {
  g.strokeStyle = colours.text;
  g.globalAlpha = 0.55;
  g.lineWidth = 1;
  line(g, [[x, top], [x, bottom]]);
  g.globalAlpha = 1;
}

export function centred(g, box, text, colours) {
  Object.assign(g, { font: FONT, textAlign: "center", textBaseline: "middle", fillStyle: colours.faint });
  g.fillText(text, box.x + box.w / 2, box.y + box.h / 2);
}

// The trajectories from several starts on a plane, up to step `at`; rings mark starts, dots the present states.
export function paths(g, box, recording, at, zoomed, colours, waiting = "") {
  title(g, box, zoomed ? "limits, enlarged" : box.w < 330 ? "trajectories" : "trajectories from several starts", colours);
  if (waiting) centred(g, box, waiting, colours);
  if (!recording?.count) return;
  const now = Math.min(at, recording.last);
  const all = recording.starts.map((kind, start) => ({ kind, x: recording.series("x", start), y: recording.series("y", start) }));
  const frame = { x: box.x + 12, y: box.y + 28, w: box.w - 24, h: box.h - 44 };
  const { scale, unit } = fitted(all, zoomed ? Math.floor(0.6 * recording.last) : 0, frame);
  if (zoomed && unit) ruler(g, box, unit / fitted(all, 0, frame).unit, colours);
  const stride = Math.max(1, Math.floor(recording.count / MAX_POINTS));
  const order = all.map((_, i) => i).reverse(); // the usual start on top
  for (const i of order) {
    const { kind, x, y } = all[i];
    const points = [];
    for (let step = 0; step <= now; step += stride) points.push(inside(scale(x[step], y[step]), box));
    points.push(inside(scale(x[now], y[now]), box));
    g.strokeStyle = colourOf(kind, colours);
    g.globalAlpha = kind === "swapped" ? 0.55 : 0.85;
    g.lineWidth = kind === "usual" ? 2 : 1.3;
    line(g, points);
    g.globalAlpha = 1;
    if (!zoomed) dot(g, points[0], 3, colours.back, colourOf(kind, colours));
  }
  for (const i of order) {
    const { kind, x, y } = all[i];
    const right = recording.at(now, "right", i) === 1;
    const place = inside(scale(x[now], y[now]), box);
    dot(g, place, kind === "usual" ? 6 : 5, ofShare(recording.at(now, "share", i), right), colourOf(kind, colours));
  }
}

// How much an enlarged plot is enlarged; beyond a certain factor it shows rounding errors.
function ruler(g, box, factor, colours) {
  const text = factor < 1e5 ? `enlarged ${factor < 10 ? factor.toFixed(1) : Math.round(factor).toLocaleString("en")} times` : "differences are rounding errors";
  Object.assign(g, { font: FONT, textAlign: "left", textBaseline: "alphabetic", fillStyle: factor < 1e5 ? colours.faint : colours.mid });
  g.fillText(text, box.x + 10, box.y + box.h - 8);
}

const inside = (point, box) => {
  const [x, y] = point;
  return x < box.x + 2 || x > box.x + box.w - 2 || y < box.y + 22 || y > box.y + box.h - 2 ? [NaN, NaN] : point;
};

function dot(g, [x, y], radius, fill, stroke) {
  if (!Number.isFinite(x)) return;
  g.beginPath();
  g.arc(x, y, radius, 0, 2 * Math.PI);
  g.fillStyle = fill;
  g.fill();
  g.strokeStyle = stroke;
  g.lineWidth = 1.5;
  g.stroke();
}

// A scale that fits all points from step `from`, the same in both directions.
function fitted(all, from, box) {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { x, y } of all) {
    for (let step = from; step < x.length; step++) {
      if (!Number.isFinite(x[step]) || !Number.isFinite(y[step])) continue;
      [x0, x1, y0, y1] = [Math.min(x0, x[step]), Math.max(x1, x[step]), Math.min(y0, y[step]), Math.max(y1, y[step])];
    }
  }
  if (x0 > x1) return { scale: () => [NaN, NaN], unit: 0 };
  const size = Math.max(x1 - x0, y1 - y0, 1e-9 * Math.max(Math.abs(x0), Math.abs(y0), 1e-9));
  const unit = Math.min(box.w / Math.max(x1 - x0, 0.35 * size), box.h / Math.max(y1 - y0, 0.35 * size));
  const [cx, cy] = [(x0 + x1) / 2, (y0 + y1) / 2];
  return { scale: (x, y) => [box.x + box.w / 2 + (x - cx) * unit, box.y + box.h / 2 - (y - cy) * unit], unit };
}

export const ROW = 13; // pixels of a strip

// How much of the answer is right at each step, one strip per start.
export function strips(g, box, recording, steps, at, colours) {
  const [left, wide] = [box.x + 74, box.w - 84];
  g.font = FONT;
  recording.starts.forEach((kind, start) => {
    const y = box.y + start * ROW;
    g.fillStyle = colourOf(kind, colours);
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.fillText(LABELS[kind], left - 8, y + ROW / 2);
    strip(g, { x: left, y: y + 1.5, w: wide, h: ROW - 3 }, recording, start, steps, colours);
  });
  marker(g, left + (wide * at) / Math.max(1, steps), box.y, box.y + recording.starts.length * ROW, colours);
}

export function strip(g, box, recording, start, steps, colours) {
  g.fillStyle = colours.raised;
  g.fillRect(box.x, box.y, box.w, box.h);
  const cells = Math.max(1, Math.min(steps + 1, Math.floor(box.w / 2)));
  const edge = (cell) => box.x + Math.round((cell * box.w) / cells); // whole pixels, to avoid seams
  for (let cell = 0; cell < cells; cell++) {
    const step = Math.min(steps, Math.round((cell * steps) / Math.max(1, cells - 1)));
    if (step >= recording.count) break;
    g.fillStyle = ofShare(recording.at(step, "share", start), recording.at(step, "right", start) === 1);
    g.fillRect(edge(cell), box.y, edge(cell + 1) - edge(cell), box.h);
  }
}
