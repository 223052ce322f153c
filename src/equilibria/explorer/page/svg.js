// A drawing context that writes SVG: the part of the canvas interface that this page uses.

const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const n = (value) => String(Math.round(value * 100) / 100);

export class SvgContext {
  constructor(width, height) {
    [this.width, this.height] = [width, height];
    this.parts = [];
    this.path = "";
    Object.assign(this, {
      fillStyle: "#000000", strokeStyle: "#000000", lineWidth: 1, globalAlpha: 1, font: "12px sans-serif",
      textAlign: "left", textBaseline: "alphabetic",
    });
  }

  put(shape, style) {
    const alpha = this.globalAlpha < 1 ? ` opacity="${n(this.globalAlpha)}"` : "";
    this.parts.push(`<${shape} ${style}${alpha}/>`);
  }

  filled() {
    return `fill="${this.fillStyle}"`;
  }

  stroked() {
    return `fill="none" stroke="${this.strokeStyle}" stroke-width="${n(this.lineWidth)}" stroke-linejoin="round"`;
  }

  fillRect(x, y, w, h) {
    this.put(`rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"`, this.filled());
  }

  strokeRect(x, y, w, h) {
    this.put(`rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"`, this.stroked());
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${n(x)} ${n(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${n(x)} ${n(y)}`;
  }

  closePath() {
    this.path += "Z";
  }

  // Whole circles only.
  arc(x, y, r) {
    this.path += `M${n(x - r)} ${n(y)}a${n(r)} ${n(r)} 0 1 0 ${n(2 * r)} 0a${n(r)} ${n(r)} 0 1 0 ${n(-2 * r)} 0`;
  }

  fill() {
    if (this.path) this.put(`path d="${this.path}"`, this.filled());
  }

  stroke() {
    if (this.path) this.put(`path d="${this.path}"`, this.stroked());
  }

  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const base = this.textBaseline === "middle" ? ' dominant-baseline="central"' : "";
    const style = `style="font:${escaped(this.font)}" text-anchor="${anchor}"${base} ${this.filled()}`;
    this.parts.push(`<text x="${n(x)}" y="${n(y)}" ${style}>${escaped(text)}</text>`);
  }

  text() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}
