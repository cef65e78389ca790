// Memory over time: from points that say who came and went to stacked heights, one per pixel column.

// From the ground up: what stays longest lies lowest.
const kStack = ["parameter", "optimizer_state", "workspace", "gradient", "input", "activation", "unknown", "transient"];
const kGone = 1, kOnDevice = 2, kAlive = 4;
const kStride = 128;  // points between two remembered states

class Memory {
  constructor(step, kindWords) {
    this.step = step;
    const layer = Uint8Array.from(kindWords, (word) => kStack.indexOf(word));
    this.layers = Uint8Array.from(step.size, (_, who) => who < step.kind.length ? layer[step.kind[who]] : kStack.length - 1);
    const points = step.pt_t.length;
    this.device = new Float64Array(points);  // after each point
    this.alive = new Float64Array(points);
    this.blocks = Math.ceil(points / kStride);
    this.remembered = new Float64Array(this.blocks * kStack.length);  // the layers before each block of points
    this.highest = new Uint32Array(this.blocks);                      // the point of each block with the most on the device
    this.mostAlive = new Float64Array(this.blocks);
    this.moved = false;
    this.follow();
    this.layersUsed = new Set(step.pt_who.length ? Array.from(new Set(this.layers)) : []);
    this.most = this.peak();
  }

  follow() {
    const { pt_what, pt_who, size } = this.step, storages = this.step.kind.length;
    const layers = new Float64Array(kStack.length);
    let device = 0, alive = 0;
    for (let i = 0; i < pt_what.length; ++i) {
      const block = Math.floor(i / kStride), what = pt_what[i], who = pt_who[i];
      if (i % kStride === 0) { this.remembered.set(layers, block * kStack.length); this.highest[block] = i; }
      const change = what & kGone ? -size[who] : size[who];
      if (what & kOnDevice) { device += change; layers[this.layers[who]] += change; }
      if (what & kAlive) alive += change; else if (who < storages) this.moved = true;
      this.device[i] = device;
      this.alive[i] = alive;
      if (device >= this.device[this.highest[block]]) this.highest[block] = i;
      if (alive > this.mostAlive[block]) this.mostAlive[block] = alive;
    }
  }

  peak() {
    let best = -1, alive = 0;
    for (let block = 0; block < this.blocks; ++block) {
      if (best < 0 || this.device[this.highest[block]] > this.device[best]) best = this.highest[block];
      alive = Math.max(alive, this.mostAlive[block]);
    }
    const state = this.after(best);
    return { ...state, alive, at: best < 0 ? 0 : this.step.pt_t[best] };
  }

  // The state right after a point; -1: before the first.
  after(point) {
    const { pt_what, pt_who, size } = this.step, layers = new Float64Array(kStack.length);
    if (point < 0) return { device: 0, alive: 0, layers };
    const block = Math.floor(point / kStride);
    layers.set(this.remembered.subarray(block * kStack.length, (block + 1) * kStack.length));
    for (let i = block * kStride; i <= point; ++i)
      if (pt_what[i] & kOnDevice) layers[this.layers[pt_who[i]]] += pt_what[i] & kGone ? -size[pt_who[i]] : size[pt_who[i]];
    return { device: this.device[point], alive: this.alive[point], layers };
  }
  at(time) { return this.after(lowerBound(this.step.pt_t, time + 1) - 1); }

  // The point of [begin, end) with the most on the device, and the most that is alive; whole blocks at a time.
  highestOf(begin, end, best, alive) {
    for (let i = begin; i < end;) {
      const block = i / kStride, whole = i % kStride === 0 && i + kStride <= end;
      const point = whole ? this.highest[block] : i;
      if (best < 0 || this.device[point] >= this.device[best]) best = point;
      alive = Math.max(alive, whole ? this.mostAlive[block] : this.alive[i]);
      i += whole ? kStride : 1;
    }
    return { best, alive };
  }

  // For `count` columns over [from, until): the layers at the highest moment of each, and the most that is alive.
  columns(from, until, count) {
    const { pt_t } = this.step, width = kStack.length;
    const layers = new Float64Array(count * width), alive = new Float64Array(count);
    let begin = lowerBound(pt_t, from);
    for (let column = 0; column < count; ++column) {
      const end = lowerBound(pt_t, from + (until - from) * (column + 1) / count);
      const carried = begin - 1;  // holds until the first point of the column
      const found = this.highestOf(begin, end, carried, carried < 0 ? 0 : this.alive[carried]);
      layers.set(this.after(found.best).layers, column * width);
      alive[column] = found.alive;
      begin = end;
    }
    return { layers, alive };
  }

  // The stretches of one storage's life, as [from, until, on the device].
  lifeOf(who) {
    const { pt_t, pt_who, pt_what, head } = this.step;
    const life = [];
    let since = -1, there = false;
    for (let i = 0; i < pt_t.length; ++i) {
      if (pt_who[i] !== who) continue;
      if (since >= 0) life.push([since, pt_t[i], there]);
      const what = pt_what[i];
      since = (what & kGone) && (what & kAlive) ? -1 : pt_t[i];
      there = what & kOnDevice ? !(what & kGone) : there && !(what & kAlive);
    }
    if (since >= 0) life.push([since, head.duration, there]);
    return life;
  }
}
