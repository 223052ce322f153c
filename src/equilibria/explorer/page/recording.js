// The steps of a solve: numbers as float32, answers as bytes.

export class Recording {
  constructor(opened) {
    this.columns = opened.columns;
    this.starts = opened.starts ?? ["this"];
    this.width = opened.columns.length * this.starts.length;
    this.places = opened.places;
    this.steps = opened.steps;
    this.solver = opened.solver;
    this.count = 0; // steps that have arrived, including the start
    this.numbers = new Float32Array((opened.steps + 1) * this.width);
    this.painted = new Uint8Array((opened.steps + 1) * opened.places);
    this.done = null;
  }

  // Add a packet: all numbers, then all answers.
  add({ first, count, data }) {
    const size = count * this.width;
    this.numbers.set(new Float32Array(data, 0, size), first * this.width);
    this.painted.set(new Uint8Array(data, 4 * size, count * this.places), first * this.places);
    this.count = first + count;
  }

  get last() {
    return this.count - 1;
  }

  // The value of a column for a start at a step.
  at(step, column, start = 0) {
    return this.numbers[step * this.width + start * this.columns.length + this.columns.indexOf(column)];
  }

  // A whole column of a start, up to the last step that has arrived.
  series(column, start = 0) {
    const offset = start * this.columns.length + this.columns.indexOf(column);
    const found = new Float32Array(this.count);
    for (let step = 0; step < this.count; step++) found[step] = this.numbers[step * this.width + offset];
    return found;
  }

  answer(step) {
    return this.painted.subarray(step * this.places, (step + 1) * this.places);
  }

  // `since`: the step from which the answer stays right; else `lost`: the last range of steps in which it was right.
  rightness() {
    const right = this.series("right");
    let since = right.length;
    while (since > 0 && right[since - 1] === 1) since--;
    if (since < right.length) return { since, lost: null };
    let end = right.length;
    while (end > 0 && right[end - 1] !== 1) end--;
    let begin = end;
    while (begin > 0 && right[begin - 1] === 1) begin--;
    return { since: null, lost: end ? [begin, end - 1] : null };
  }
}
