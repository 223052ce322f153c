// The second tab: figures of reproductions, in which every point is a net, and reports.

import { $, el } from "./dom.js";
import { colours } from "./theme.js";
import { fetched } from "./transport.js";

const [WIDE, HIGH, LEFT, BOTTOM, TOP, RIGHT] = [520, 340, 56, 44, 12, 14];

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Four or five round numbers that span a range.
function ticks(low, high) {
  const raw = (high - low) / 4 || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const stride = unit * ([1, 2, 5, 10].find((step) => step * unit >= raw) ?? 10);
  const found = [];
  for (let value = Math.ceil(low / stride) * stride; value <= high + 1e-9; value += stride) found.push(+value.toFixed(10));
  return found;
}

function scatter(figure, app) {
  const palette = colours();
  const [xs, ys] = [figure.points.map((point) => point.x), figure.points.map((point) => point.y)];
  const range = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (high - low || 0.1) * 0.06;
    return [low - room, high + room];
  };
  const [[x0, x1], [y0, y1]] = [range(xs), range(ys)];
  const x = (value) => LEFT + ((WIDE - LEFT - RIGHT) * (value - x0)) / (x1 - x0);
  const y = (value) => HIGH - BOTTOM - ((HIGH - BOTTOM - TOP) * (value - y0)) / (y1 - y0);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": figure.title });
  const word = (text, attributes) => svg("text", { fill: palette.soft, "font-size": 12, ...attributes }, text);
  for (const value of ticks(x0, x1)) {
    picture.append(svg("path", { d: `M${x(value)} ${TOP}V${HIGH - BOTTOM}`, stroke: palette.line }));
    picture.append(word(String(value), { x: x(value), y: HIGH - BOTTOM + 17, "text-anchor": "middle" }));
  }
  for (const value of ticks(y0, y1)) {
    picture.append(svg("path", { d: `M${LEFT} ${y(value)}H${WIDE - RIGHT}`, stroke: palette.line }));
    picture.append(word(String(value), { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }));
  }
  picture.append(word(figure.x, { x: (LEFT + WIDE) / 2, y: HIGH - 6, "text-anchor": "middle" }));
  picture.append(word(figure.y, { x: 14, y: HIGH / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${HIGH / 2})` }));
  for (const point of figure.points) {
    const text = `${point.label || point.net}: ${figure.x} ${point.x.toFixed(3)}, ${figure.y} ${point.y.toFixed(3)}`;
    const there = point.known ? `${text}. Open this net.` : `${text}. This net is not in these folders.`;
    const dot = svg("circle", {
      cx: x(point.x), cy: y(point.y), r: 6, fill: point.known ? palette.good : palette.faint, "fill-opacity": 0.8,
      stroke: palette.panel, role: point.known ? "button" : "img", tabindex: 0, "aria-label": there,
    }, svg("title", {}, there));
    if (point.known) {
      const open = () => app.openNet(point.net, figure.x.startsWith("AA") ? point.x : null);
      dot.addEventListener("click", open);
      dot.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          open();
        }
      });
    }
    picture.append(dot);
  }
  return picture;
}

function shown(figure, app) {
  const away = figure.points.filter((point) => !point.known).length;
  const notes = [
    figure.points.length ? "Click a point to open its net." : "This figure has no points.",
    away ? `The nets of ${away} grey points are not in these folders.` : "",
    figure.left_out ? `${figure.left_out} points without finite numbers are not shown.` : "",
  ];
  const body = figure.points.length ? [scatter(figure, app)] : [];
  return el("section", { className: "figure" }, el("h3", {}, figure.title), ...body, el("p", {}, notes.filter(Boolean).join(" ")));
}

export async function showFigures(app) {
  const place = $("figures");
  place.replaceChildren(el("p", { className: "empty" }, "Loading …"));
  let found;
  try {
    const [figures, nets] = await Promise.all([fetched("api/figures"), fetched("api/nets")]);
    app.updateNets(nets);
    found = figures;
  } catch (error) {
    place.replaceChildren(el("p", { className: "message", role: "alert" }, error.message));
    return;
  }
  const parts = [el("h2", {}, "Correlation figures")];
  if (found.figures.length) parts.push(el("div", { className: "figures" }, ...found.figures.map((figure) => shown(figure, app))));
  else parts.push(el("p", { className: "empty" }, "No figures found: these folders contain no points.json."));
  parts.push(...found.problems.map((problem) => el("p", { className: "message" }, problem)));
  parts.push(el("h2", {}, "Reports"));
  for (const { title, address } of found.reports) {
    parts.push(el("p", {}, el("a", { href: address, target: "_blank", rel: "noopener" }, `${title}: open in a new tab`)));
    const frame = el("iframe", { src: address, title: `Report: ${title}` });
    frame.setAttribute("sandbox", "allow-same-origin"); // its own images, but no scripts
    parts.push(frame);
  }
  if (!found.reports.length) parts.push(el("p", { className: "empty" }, "No reports found: `equilibria reproduce` writes results/<scale>/report.html."));
  place.replaceChildren(...parts);
}
