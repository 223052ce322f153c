// Recorded solves, which an exported page plays without a server.

import { bytes } from "./dom.js";

const PACE = 30; // milliseconds between two packets, as from a server

// A request as text, independent of the order of its fields.
function keyOf(value) {
  if (Array.isArray(value)) return `[${value.map(keyOf).join()}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  return `{${Object.keys(value).sort().map((name) => `${name}:${keyOf(value[name])}`).join()}}`;
}

// Events from compressed JSON in base64.
function unpacked(text) {
  const stream = new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

export class Recorded {
  constructor(index) {
    this.views = index.views; // of the recording: { task, nets, difficulty, seeds, starts, solvers, steps }
    this.files = new Map(index.recordings.map(({ request, file }) => [keyOf(request), file]));
    this.loaded = new Map();
    window.explorerRecording = (file, text) => this.loaded.get(file).resolve(unpacked(text));
  }

  view(task) {
    return this.views.find((view) => view.task === task);
  }

  seeds(task) {
    return this.view(task).seeds;
  }

  nextSeed(task, seed) {
    const seeds = this.seeds(task);
    return seeds[(seeds.indexOf(seed) + 1) % seeds.length];
  }

  // Recordings are scripts, because a page on a disk can load nothing else.
  load(file) {
    if (!this.loaded.has(file)) {
      const promise = Promise.withResolvers();
      this.loaded.set(file, promise);
      const script = document.createElement("script");
      script.src = file;
      script.onerror = () => promise.reject(new Error(`${file} is missing from this page`));
      document.head.append(script);
    }
    return this.loaded.get(file).promise;
  }

  open(request, handle) {
    let over = false;
    const file = this.files.get(keyOf(request));
    if (!file) {
      const reason = "This view was not recorded. Run `equilibria explore` to see it.";
      queueMicrotask(() => over || handle({ event: "refused", status: 404, reason }));
      return () => (over = true);
    }
    const play = async () => {
      try {
        for (const event of await this.load(file)) {
          if (over) return;
          if (event.event === "frames") {
            await new Promise((done) => setTimeout(done, PACE));
            if (over) return;
            handle({ ...event, data: bytes(event.data).buffer });
          } else handle(event);
        }
      } catch (error) {
        if (!over) handle({ event: "refused", status: 404, reason: error.message });
      }
    };
    play();
    return () => (over = true);
  }
}
