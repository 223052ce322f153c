// Export the view: as PNG, SVG or JSON.

import { $, say } from "./dom.js";
import { toHash } from "./link.js";
import { paths, residuals, ROW, strips } from "./plots.js";
import { state } from "./state.js";
import { SvgContext } from "./svg.js";
import { colours } from "./theme.js";

const [WIDE, GAP, BIG, SMALL] = [1360, 20, 400, 240];
const SHARP = 2; // pixels of the PNG per pixel of the drawing

function height(app) {
  const rows = Math.max(0, ...app.panes.map((pane) => pane.several?.starts.length ?? 0));
  return 110 + BIG + 16 + rows * ROW + 2 * GAP;
}

function label(g, text, x, y, font, colour) {
  Object.assign(g, { font, fillStyle: colour, textAlign: "left", textBaseline: "alphabetic" });
  g.fillText(text, x, y);
}

// Draw both nets at this step, on any drawing context.
function drawn(g, app, high) {
  const palette = colours();
  const step = app.player.step;
  g.fillStyle = palette.panel;
  g.fillRect(0, 0, WIDE, high);
  const [{ text }] = $("start").selectedOptions;
  const start = state.start.kind === "noise" ? `noise × ${state.start.scale}` : text;
  const task = app.nets.tasks[state.task];
  const what = `${task.title}, ${task.word.toLowerCase()} ${state.input.difficulty}, seed ${state.input.seed}; start: ${start}; ${state.solver}`;
  label(g, what, GAP, 30, "600 15px Inter, system-ui, sans-serif", palette.text);
  label(g, `step ${step} of ${app.total()}`, WIDE - 150, 30, "13px Inter, system-ui, sans-serif", palette.soft);
  app.panes.forEach((pane, i) => {
    const left = GAP + i * (WIDE / 2);
    const top = 100;
    label(g, state.nets[i] ?? "", left, 60, "600 14px Inter, system-ui, sans-serif", palette[i ? "right" : "left"]);
    const mood = { good: palette.good, bad: palette.bad }[pane.verdict.className] ?? palette.text;
    label(g, pane.verdict.textContent, left, 84, "600 16px Inter, system-ui, sans-serif", mood);
    if (!pane.input || !pane.main) return;
    const at = pane.shown(step);
    pane.view.draw(g, { x: left, y: top, w: BIG - 10, h: BIG }, pane.input, at === null ? null : pane.main.answer(at), palette, null);
    const beside = { x: left + BIG, y: top, w: SMALL, h: BIG * 0.45 };
    residuals(g, beside, pane.lines(palette), app.total(), step, palette);
    paths(g, { ...beside, y: top + BIG * 0.48, h: BIG * 0.52 }, pane.several, step, pane.zoomed, palette);
    if (pane.several) strips(g, { x: left, y: top + BIG + 16, w: BIG + SMALL }, pane.several, app.total(), step, palette);
  });
}

export function asSvg(app) {
  const g = new SvgContext(WIDE, height(app));
  drawn(g, app, g.height);
  return new Blob([g.text()], { type: "image/svg+xml" });
}

export function asPng(app) {
  const high = height(app);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDE * SHARP, high * SHARP];
  const g = canvas.getContext("2d");
  g.scale(SHARP, SHARP);
  drawn(g, app, high);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const list = (numbers) => Array.from(numbers, (value) => (Number.isFinite(value) ? value : null));

export function asJson(app) {
  const panes = app.panes.map((pane, i) => ({
    net: state.nets[i],
    verdict: pane.verdict.textContent,
    note: pane.note || null,
    done: pane.main?.done ?? null,
    steps: pane.main
      ? Object.fromEntries(pane.main.columns.map((name) => [name, list(pane.main.series(name))]))
      : null,
    answer: pane.main?.count ? Array.from(pane.main.answer(pane.shown(app.player.step))) : null,
    diagnosis: pane.several
      ? {
          done: pane.several.done,
          starts: pane.several.starts.map((kind, start) => ({
            kind,
            ...Object.fromEntries(pane.several.columns.map((name) => [name, list(pane.several.series(name, start))])),
          })),
        }
      : null,
  }));
  const { task, input, start, solver, steps, tol } = state;
  const view = { format: "equilibria-view-1", link: toHash(app.player.step), task, input, start, solver, steps, tol };
  return new Blob([JSON.stringify({ ...view, step: app.player.step, panes })], { type: "application/json" });
}

const FORMS = { png: asPng, svg: asSvg, json: asJson };

async function save(app, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await FORMS[kind](app));
  link.download = `equilibria-${state.task}-${state.input.difficulty}-step-${app.player.step}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  say(`saved ${link.download}`);
}

function openMenu(open) {
  $("save-menu").hidden = !open;
  $("save").setAttribute("aria-expanded", String(open));
}

export function attachSave(app) {
  $("save").onclick = () => openMenu($("save-menu").hidden);
  for (const button of document.querySelectorAll("[data-save]")) {
    button.onclick = () => {
      openMenu(false);
      save(app, button.dataset.save);
    };
  }
  document.addEventListener("click", (event) => event.target.closest(".menu") ?? openMenu(false));
  document.addEventListener("keydown", (event) => event.key === "Escape" && openMenu(false));
  $("share").onclick = async () => {
    const address = location.href.split("#")[0] + toHash(app.player.step);
    history.replaceState(null, "", toHash(app.player.step));
    try {
      await navigator.clipboard.writeText(address);
      $("share").textContent = "Copied";
      say("Link copied");
    } catch {
      $("share").textContent = "Link is in the address bar";
      say("The browser did not allow copying. The link is in the address bar");
    }
    setTimeout(() => ($("share").textContent = "Copy link"), 1600);
  };
}
