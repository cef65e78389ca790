// The drawing of one step: memory above, lanes below, one axis of time for both.

const kGutter = 92, kRight = 14, kTop = 10, kMemoryHeight = 300, kAxis = 22, kLane = 22, kLaneGap = 7;

class Timeline {
  constructor(canvas, { onHover }) {
    this.canvas = canvas;
    this.onHover = onHover;
    this.hidden = new Set();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(step, memory, lanes) {
    Object.assign(this, { step, memory, lanes, chosen: null, selection: null, hover: null });
    this.all = [0, Math.max(step.head.duration, ...lanes.map((lane) => lane.end.length ? lane.end[lane.end.length - 1] : 0))];
    this.range = [...this.all];
    this.draw();
  }
  choose(who) { this.chosen = who === null ? null : { who, life: this.memory.lifeOf(who) }; this.draw(); }
  toggle(layer) { if (!this.hidden.delete(layer)) this.hidden.add(layer); this.draw(); }

  zoom(factor, around = (this.range[0] + this.range[1]) / 2) {
    this.look(around - (around - this.range[0]) * factor, around + (this.range[1] - around) * factor);
  }
  look(from, until) {
    const least = Math.min(20, this.all[1]);
    const width = Math.min(Math.max(until - from, least), this.all[1]);
    from = Math.min(Math.max(from, 0), this.all[1] - width);
    this.range = [from, from + width];
    this.draw();
  }

  get rows() { return this.lanes.length + (this.chosen ? 1 : 0); }
  laneTop(row) { return kTop + kMemoryHeight + kAxis + 12 + row * (kLane + kLaneGap); }
  x(time) { return kGutter + (time - this.range[0]) / (this.range[1] - this.range[0]) * this.plotWidth; }
  timeAt(x) { return this.range[0] + (x - kGutter) / this.plotWidth * (this.range[1] - this.range[0]); }
  y(bytes) { return kTop + kMemoryHeight * (1 - bytes / this.highest); }

  draw() {
    if (!this.step || this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const height = this.laneTop(this.rows) + 2;
    this.canvas.style.height = `${height}px`;
    const scale = window.devicePixelRatio || 1;
    this.plotWidth = this.canvas.clientWidth - kGutter - kRight;  // kept: asking the canvas makes it lay out the page
    this.canvas.width = Math.round(this.canvas.clientWidth * scale);
    this.canvas.height = Math.round(height * scale);
    const pen = this.pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    const { budget, plan } = this.step.head;
    const lines = this.hidden.has("alive") || !this.memory.moved ? 0 : this.memory.most.alive;
    this.highest = 1.06 * Math.max(this.memory.most.device, budget, plan?.peak ?? 0, lines, 1);
    this.paintAxes();
    this.paintMemory(scale);
    this.lanes.forEach((lane, row) => this.paintLane(lane, row));
    if (this.chosen) this.paintLife();
    this.paintPointer();
  }

  paintAxes() {
    const { pen } = this;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    let tick = 2 ** Math.floor(Math.log2(this.highest / 4));
    if (this.highest / tick > 7) tick *= 2;
    for (let bytes = 0; bytes <= this.highest; bytes += tick) {
      const y = Math.round(this.y(bytes)) + .5;
      this.rule(kGutter, y, this.canvas.clientWidth - kRight, y, color("grid"));
      pen.fillStyle = color("soft");
      pen.fillText(bytes === 0 ? "0" : formatBytes(bytes), kGutter - 8, y);
    }
    const unit = this.step.head.unit, width = (this.range[1] - this.range[0]) * unit;
    const raw = width / Math.max(2, this.plotWidth / 130), power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((times) => times * power >= raw);
    const bottom = this.laneTop(this.rows) - kLaneGap;
    pen.textAlign = "center";
    for (let at = Math.ceil(this.range[0] * unit / step) * step; at <= this.range[1] * unit; at += step) {
      const x = Math.round(this.x(at / unit)) + .5;
      this.rule(x, kTop, x, bottom, color("grid"));
      pen.fillStyle = color("soft");
      const text = at === 0 ? "0" : formatTime(at), most = this.canvas.clientWidth - pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(x, most), kTop + kMemoryHeight + kAxis / 2 + 3);
    }
  }

  rule(x0, y0, x1, y1, style, dash = []) {
    const { pen } = this;
    pen.strokeStyle = style;
    pen.setLineDash(dash);
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
    pen.setLineDash([]);
  }

  paintMemory(scale) {
    const { pen } = this;
    const count = Math.max(1, Math.round(this.plotWidth * scale)), wide = this.plotWidth / count;
    const { layers, alive } = this.memory.columns(this.range[0], this.range[1], count);
    const shown = kStack.map((name) => !this.hidden.has(name));
    const heights = new Float64Array(count);
    const polygons = kStack.map((name, layer) => {
      if (!shown[layer]) return null;
      for (let i = 0; i < count; ++i) heights[i] += layers[i * kStack.length + layer];
      return heights.slice();
    });
    for (let layer = kStack.length - 1; layer >= 0; --layer) {  // each covers the lower part of the one above
      if (!polygons[layer]) continue;
      pen.fillStyle = color(kStack[layer]);
      this.trace(polygons[layer], wide, true);
    }
    if (this.memory.moved && !this.hidden.has("alive")) {
      pen.strokeStyle = color("alive");
      pen.lineWidth = 1.25;
      pen.setLineDash([2, 2]);
      this.trace(alive, wide, false);
      pen.setLineDash([]);
    }
    const { budget, plan } = this.step.head;
    pen.lineWidth = 1.5;
    if (budget > 0) this.level(budget, "budget", `budget ${formatBytes(budget)}`, [7, 4], -9);
    if (plan?.peak) this.level(plan.peak, "plan", `planned peak ${formatBytes(plan.peak)}`, [3, 3], 10);
  }

  trace(heights, wide, fill) {
    const { pen } = this;
    pen.beginPath();
    if (fill) pen.moveTo(kGutter, this.y(0));
    for (let i = 0; i < heights.length; ++i) {
      if (i > 0 && i + 1 < heights.length && heights[i] === heights[i - 1] && heights[i] === heights[i + 1]) continue;
      pen.lineTo(kGutter + i * wide, this.y(heights[i]));
      pen.lineTo(kGutter + (i + 1) * wide, this.y(heights[i]));
    }
    if (!fill) return pen.stroke();
    pen.lineTo(kGutter + heights.length * wide, this.y(0));
    pen.fill();
  }

  // A line across at so many bytes, with its name above or below it.
  level(bytes, hue, text, dash, aside) {
    const { pen } = this, y = Math.round(this.y(bytes)) + .5;
    this.rule(kGutter, y, this.canvas.clientWidth - kRight, y, color(hue), dash);
    pen.textAlign = "left";
    pen.fillStyle = color("card");
    pen.globalAlpha = .8;
    pen.fillRect(kGutter + 5, y + aside - 7, pen.measureText(text).width + 10, 14);
    pen.globalAlpha = 1;
    pen.fillStyle = color(hue);
    pen.fillText(text, kGutter + 10, y + aside);
  }

  paintLane(lane, row) {
    const { pen } = this, top = this.laneTop(row);
    this.paintLaneName(lane.name, top, lane.places.length === 0);
    const colors = new Map();
    const hue = (name) => colors.get(name) ?? colors.set(name, color(name)).get(name);
    const right = this.canvas.clientWidth - kRight;
    const cover = new Float32Array(Math.ceil(this.plotWidth) + 1), tint = new Array(cover.length);
    const [begin, end] = this.range, zoom = this.plotWidth / (end - begin);
    for (let i = lane.firstAt(begin); i < lane.places.length && lane.start[i] <= end; ++i) {
      const from = kGutter + (lane.start[i] - begin) * zoom, until = kGutter + (lane.end[i] - begin) * zoom;
      if (until < kGutter) continue;
      const left = Math.max(from, kGutter), wide = Math.min(until, right) - left;
      if (wide < 1.5) {  // too small to see alone: counted with its neighbours
        const column = Math.min(Math.floor(left - kGutter), cover.length - 1);
        cover[column] += Math.max(wide, .3);
        tint[column] = lane.hue(i);
        continue;
      }
      pen.fillStyle = hue(lane.hue(i));
      pen.fillRect(left, top, wide > 3 ? wide - .5 : wide, kLane);
      if (wide > 46) this.paintLabel(lane.tell(i)[0][1], left, top, wide);
    }
    for (let i = 0; i < cover.length; ++i) {
      if (cover[i] === 0) continue;
      pen.globalAlpha = Math.min(1, .35 + .65 * cover[i]);
      pen.fillStyle = hue(tint[i]);
      pen.fillRect(kGutter + i, top, 1, kLane);
    }
    pen.globalAlpha = 1;
  }

  paintLaneName(name, top, empty) {
    const { pen } = this;
    pen.fillStyle = color("grid");
    pen.globalAlpha = .55;
    pen.fillRect(kGutter, top, this.plotWidth, kLane);
    pen.globalAlpha = empty ? .5 : 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillStyle = color("soft");
    pen.fillText(name, kGutter - 8, top + kLane / 2 + .5);
    pen.globalAlpha = 1;
  }

  paintLabel(text, left, top, wide) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide - 3, kLane);
    pen.clip();
    pen.fillStyle = "#fff";
    pen.textAlign = "left";
    pen.fillText(text, left + 5, top + kLane / 2 + .5);
    pen.restore();
  }

  paintLife() {
    const { pen } = this, top = this.laneTop(this.lanes.length), right = this.canvas.clientWidth - kRight;
    this.paintLaneName("this storage", top, false);
    for (const [from, until, there] of this.chosen.life) {
      const left = Math.max(this.x(from), kGutter), wide = Math.min(this.x(until), right) - left;
      if (wide <= 0) continue;
      pen.fillStyle = color("accent");
      pen.globalAlpha = there ? 1 : .22;
      pen.fillRect(left, top, Math.max(wide, 1), kLane);
      pen.globalAlpha = 1;
      if (wide > 60) { pen.fillStyle = there ? "#fff" : color("soft"); pen.textAlign = "left"; pen.fillText(there ? "here" : "away", left + 6, top + kLane / 2 + .5); }
    }
  }

  paintPointer() {
    const { pen } = this, bottom = this.laneTop(this.rows) - kLaneGap;
    if (this.selection) {
      const [a, b] = this.selection.map((time) => this.x(time));
      pen.fillStyle = color("accent");
      pen.globalAlpha = .13;
      pen.fillRect(Math.min(a, b), kTop, Math.abs(b - a), bottom - kTop);
      pen.globalAlpha = 1;
    }
    if (this.hover === null || this.hover < this.range[0] || this.hover > this.range[1]) return;
    const x = Math.round(this.x(this.hover)) + .5;
    pen.lineWidth = 1;
    this.rule(x, kTop, x, bottom, color("soft"), [3, 3]);
  }

  listen() {
    const { canvas } = this;
    let pressed = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.offsetX < kGutter) return;
      canvas.setPointerCapture(event.pointerId);
      pressed = { time: this.timeAt(event.offsetX), x: event.offsetX, range: [...this.range], pan: event.shiftKey };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.step) return;
      const x = Math.min(Math.max(event.offsetX, kGutter), kGutter + this.plotWidth);
      if (pressed?.pan) {
        const shift = (pressed.x - x) / this.plotWidth * (pressed.range[1] - pressed.range[0]);
        return this.look(pressed.range[0] + shift, pressed.range[1] + shift);
      }
      if (pressed) this.selection = [pressed.time, this.timeAt(x)];
      this.hover = event.offsetX < kGutter ? null : this.timeAt(x);
      this.onHover(event, this.hover === null ? null : { time: this.hover, row: this.rowAt(event.offsetY), slack: 3 / this.plotWidth * (this.range[1] - this.range[0]) });
      this.draw();
    });
    const release = (event) => {
      const selection = this.selection;
      const far = pressed && Math.abs(event.offsetX - pressed.x) > 5;
      pressed = this.selection = null;
      if (selection && far) this.look(Math.min(...selection), Math.max(...selection)); else this.draw();
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", (event) => { this.hover = null; this.onHover(event, null); this.draw(); });
    canvas.addEventListener("dblclick", () => this.look(...this.all));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * .002), this.timeAt(event.offsetX));
    }, { passive: false });
  }
  rowAt(y) {
    for (let row = 0; row < this.lanes.length; ++row) if (y >= this.laneTop(row) && y < this.laneTop(row) + kLane) return row;
    return -1;
  }
}
