// Small helpers around the document.

export const $ = (id) => document.getElementById(id);

// A new element: el("button", { className: "chip", onclick: f }, "text", child, ...).
export function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key.startsWith("data-") || key === "role" || key === "for") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// The context of a canvas in CSS pixels, sharp on every screen; null while the canvas is hidden.
export function context(canvas) {
  const { clientWidth: w, clientHeight: h } = canvas;
  if (!w || !h) return null;
  const ratio = Math.min(3, window.devicePixelRatio || 1);
  const [wide, high] = [Math.round(w * ratio), Math.round(h * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}

export function bytes(text) {
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
  return found;
}

// 0.00042 -> 4.2e-4, 0.993 -> 0.993.
export function short(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential(1);
  return value.toFixed(Math.abs(value) < 10 ? 3 : 1);
}

const KEPT = 4;
// Announce a message to screen readers. It does not replace the previous one: two nets may finish at the same time.
export function say(text) {
  const log = $("spoken");
  if (log.lastChild?.textContent === text) return;
  log.append(el("p", {}, text));
  while (log.children.length > KEPT) log.firstChild.remove();
}

// Announce what is under the keyboard's cursor, separately from messages about the nets.
export function sayPlace(text) {
  $("under-cursor").textContent = text;
}
