// The drawings, by the names that the server uses. To add one, write a module and list it here. A task may have a module
// of its own, which the server sends as own/<task>.js.

import * as bits from "./bits.js";
import * as digit from "./digit.js";
import * as generic from "./generic.js";
import * as maze from "./maze.js";
import * as numbers from "./numbers.js";

const VIEWS = { bits, digit, generic, maze, numbers };
const OWN = {}; // by task

export const viewOf = (name, task) => (task.drawing === "own" ? OWN[name] : VIEWS[task.drawing]);

// Load the modules of tasks that have one. A task whose module fails is shown without a drawing, and the reason.
export async function loadOwnViews(tasks) {
  const own = Object.entries(tasks).filter(([name, task]) => task.drawing === "own" && !OWN[name]);
  await Promise.all(own.map(async ([name]) => {
    const address = window.explorerIndex ? `explorer/own/${name}.js` : `../own/${name}.js`;
    try {
      OWN[name] = await import(address);
    } catch (error) {
      OWN[name] = withoutDrawing(`The drawing of this task cannot be loaded: ${error.message}`);
    }
  }));
}

function withoutDrawing(reason) {
  return {
    prepared: () => ({}),
    draw: (g, box, input, answer, colours) => {
      Object.assign(g, { fillStyle: colours.soft, font: "12px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
      g.fillText(reason, box.x + box.w / 2, box.y + box.h / 2, box.w);
    },
    placeAt: () => null,
    columns: () => 1,
    places: () => 0,
    described: () => "",
    summary: (input, answer, score) => ({ text: `score ${score}`, wrong: 0 }),
  };
}
