// The second tab: figures of reproductions, in which every point is a net, and reports.

import { $, el } from "./dom.js";
import { colours, series } from "./theme.js";
import { fetched } from "./transport.js";

const [WIDE, HIGH, LEFT, BOTTOM, TOP, RIGHT] = [520, 340, 64, 46, 12, 14];

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const NEAR = 9; // points that are closer to a click than this, in units of the drawing, are offered together
const LEAST_RANGE = 0.02; // of an axis, relative to its largest value: smaller differences are not worth showing

// Four to seven round numbers that span a range, with as many decimals as they need.
function ticks(low, high) {
  const raw = (high - low) / 6 || 1;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const stride = unit * ([1, 2, 5, 10].find((step) => step * unit >= raw * 0.999) ?? 10);
  const decimals = Math.max(0, -Math.floor(Math.log10(stride) + 1e-9));
  const text = (value) => (decimals > 4 && value ? value.toExponential(Math.max(0, Math.floor(Math.log10(value / stride)))) : value.toFixed(Math.min(4, decimals)));
  const found = [];
  for (let value = Math.ceil(low / stride) * stride; value <= high + 1e-9 * stride; value += stride) found.push([value, text(value)]);
  return found;
}

function range(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const wide = Math.max(high - low, LEAST_RANGE * Math.max(Math.abs(low), Math.abs(high)), 1e-12);
  const middle = (low + high) / 2;
  return [middle - 0.56 * wide, middle + 0.56 * wide];
}

// The groups of a figure, [name, colour], and the group of a point: its own, or whether its net is path independent.
function grouping(figure, app, palette) {
  const names = [...new Set(figure.points.filter((point) => point.known && point.group).map((point) => point.group))];
  if (names.length) {
    const all = names.map((name, i) => [name, series(i, palette)]);
    return { all, of: (point) => all.find(([name]) => name === point.group) ?? ["other", palette.soft] };
  }
  const [yes, no, open] = [["path independent", palette.good], ["path dependent", palette.bad], ["AA was not measured", palette.soft]];
  const measured = ({ net, x }) => app.nets.nets.find((one) => one.path === net)?.alignment ?? (figure.x.startsWith("AA") ? x : null);
  const of = (point) => {
    const alignment = measured(point);
    return alignment === null ? open : alignment < app.nets.path_independent ? no : yes;
  };
  const used = new Set(figure.points.filter((point) => point.known).map(of));
  return { all: [yes, no, open].filter((one) => used.has(one)), of };
}

function axes(picture, figure, x, y, spans, palette) {
  const word = (text, attributes) => svg("text", { fill: palette.soft, "font-size": 13, ...attributes }, text);
  for (const [value, text] of ticks(...spans[0])) {
    picture.append(svg("path", { d: `M${x(value)} ${TOP}V${HIGH - BOTTOM}`, stroke: palette.line }));
    picture.append(word(text, { x: x(value), y: HIGH - BOTTOM + 17, "text-anchor": "middle" }));
  }
  for (const [value, text] of ticks(...spans[1])) {
    picture.append(svg("path", { d: `M${LEFT} ${y(value)}H${WIDE - RIGHT}`, stroke: palette.line }));
    picture.append(word(text, { x: LEFT - 7, y: y(value) + 4, "text-anchor": "end" }));
  }
  picture.append(word(figure.x, { x: (LEFT + WIDE) / 2, y: HIGH - 4, "text-anchor": "middle" }));
  picture.append(word(figure.y, { x: 13, y: HIGH / 2, "text-anchor": "middle", transform: `rotate(-90 13 ${HIGH / 2})` }));
}

// The points of a figure. One of them can be reached with Tab, the others with the arrow keys.
function scatter(figure, app, groups, offer) {
  const palette = colours();
  const spans = [range(figure.points.map((point) => point.x)), range(figure.points.map((point) => point.y))];
  const x = (value) => LEFT + ((WIDE - LEFT - RIGHT) * (value - spans[0][0])) / (spans[0][1] - spans[0][0]);
  const y = (value) => HIGH - BOTTOM - ((HIGH - BOTTOM - TOP) * (value - spans[1][0])) / (spans[1][1] - spans[1][0]);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": `${figure.title}. Arrow keys move between points.` });
  axes(picture, figure, x, y, spans, palette);
  const points = [...figure.points].sort((a, b) => a.x - b.x || a.y - b.y);
  const near = (point) => points.filter((one) => one.known && Math.hypot(x(one.x) - x(point.x), y(one.y) - y(point.y)) < NEAR);
  const dots = points.map((point, i) => {
    const text = `${point.label || point.net}: ${figure.x} ${point.x.toFixed(3)}, ${figure.y} ${point.y.toFixed(3)}`;
    const there = point.known ? `${text}. Open this net.` : `${text}. This net is not in these folders.`;
    const dot = svg("circle", {
      cx: x(point.x), cy: y(point.y), r: 6, fill: point.known ? groups.of(point)[1] : palette.faint, "fill-opacity": point.known ? 0.8 : 0.35,
      stroke: palette.panel, role: point.known ? "button" : "img", tabindex: i ? -1 : 0, "aria-label": there,
    }, svg("title", {}, there));
    if (point.known) dot.addEventListener("click", (event) => offer(near(point), event));
    return dot;
  });
  picture.addEventListener("keydown", (event) => {
    const at = dots.indexOf(event.target);
    const move = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (at < 0 || (!move && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (!move) return points[at].known && offer([points[at]], event);
    const next = dots[(at + move + dots.length) % dots.length];
    dots[at].setAttribute("tabindex", -1);
    next.setAttribute("tabindex", 0);
    return next.focus();
  });
  picture.append(...dots);
  return picture;
}

// Open the only point, or let the user choose among points that lie on top of each other.
function offering(box, figure, app) {
  const open = (point) => app.openNet(point.net, figure.x.startsWith("AA") ? point.x : null);
  return (points, event) => {
    box.querySelector(".choice")?.remove();
    if (points.length === 1) return open(points[0]);
    const choose = (point) => el("button", { type: "button", onclick: () => open(point) }, point.label || point.net);
    const list = el("div", { className: "choice", role: "group", "aria-label": "Nets at this point" }, ...points.map(choose));
    const { left, top, width } = box.getBoundingClientRect();
    Object.assign(list.style, { left: `${Math.max(8, Math.min(event.clientX - left, width - 330))}px`, top: `${event.clientY - top + 8}px` });
    box.append(list);
    return list.firstChild.focus();
  };
}

function shown(figure, app) {
  const away = figure.points.filter((point) => !point.known).length;
  const notes = [
    figure.points.length ? "Click a point to open its net." : "This figure has no points.",
    away ? `The nets of ${away} grey points are not in these folders.` : "",
    figure.left_out ? `${figure.left_out} points without finite numbers are not shown.` : "",
  ];
  const box = el("section", { className: "figure" }, el("h3", {}, figure.title));
  if (figure.points.length) {
    const groups = grouping(figure, app, colours());
    const entry = ([name, colour]) => {
      const dot = el("i");
      dot.style.setProperty("--dot", colour);
      return el("li", {}, dot, name);
    };
    box.append(el("ul", { className: "legend" }, ...groups.all.map(entry)), scatter(figure, app, groups, offering(box, figure, app)));
  }
  box.append(el("p", {}, notes.filter(Boolean).join(" ")));
  return box;
}

export async function showFigures(app) {
  const place = $("figures");
  place.replaceChildren(el("p", { className: "empty" }, "Loading …"));
  let found;
  try {
    const [figures, nets] = await Promise.all([fetched("api/figures"), fetched("api/nets")]);
    await app.updateNets(nets);
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
  const card = ({ title, address }) =>
    el("a", { className: "report", href: address, target: "_blank", rel: "noopener" }, el("b", {}, title), el("br"), "All figures, numbers and claims of this reproduction, in a new tab.");
  if (found.reports.length) parts.push(el("div", { className: "reports" }, ...found.reports.map(card)));
  if (!found.reports.length) parts.push(el("p", { className: "empty" }, "No reports found: `equilibria reproduce` writes results/<scale>/report.html."));
  place.replaceChildren(...parts);
}
