// The strip of all steps: a bar each, as high as the step was long. Where there are more steps than pixels, a column
// shows the longest of its steps.

const kEdge = 2;  // room for the frame of the first and the last bar

class StepStrip {
  constructor(canvas, run, { onPick, onHover }) {
    Object.assign(this, { canvas, run, chosen: -1 });
    this.count = run.step.length;
    this.longest = run.duration.reduce((most, time) => Math.max(most, time), 1);
    canvas.addEventListener("click", (event) => onPick(this.lineAt(event.offsetX)));
    canvas.addEventListener("pointermove", (event) => onHover(event, this.lineAt(event.offsetX)));
    canvas.addEventListener("pointerleave", (event) => onHover(event, -1));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  get slot() { return Math.min(72, (this.canvas.clientWidth - 2 * kEdge) / this.count); }
  lineAt(x) { return Math.min(Math.max(Math.floor((x - kEdge) / this.slot), 0), this.count - 1); }
  left(line) { return kEdge + line * this.slot; }
  choose(line) { this.chosen = line; this.draw(); }

  draw() {
    const { canvas, run } = this, scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight, floor = height - 18;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    const bar = Math.max(this.slot - (this.slot > 4 ? 3 : 0), 1);
    const hues = ["compute", "recompute", "stall"].map(color);
    let drawn = -1, tallest = 0;
    for (let line = 0; line < this.count; ++line) {
      const x = this.left(line);
      if (this.slot < 1 && Math.floor(x) === drawn && run.duration[line] <= tallest) continue;
      if (this.slot < 1) { pen.clearRect(Math.floor(x), 0, 1, floor); drawn = Math.floor(x); tallest = run.duration[line]; }
      pen.globalAlpha = run.record[line] === kNobody ? .45 : 1;
      this.bar(pen, line, this.slot < 1 ? drawn : x, bar, floor, hues);
    }
    pen.globalAlpha = 1;
    this.names(pen, floor, bar);
  }

  bar(pen, line, x, wide, floor, hues) {
    const { run } = this;
    const stall = stallOf(run, line), recompute = Math.min(run.recompute[line], run.duration[line]);
    const rest = Math.max(run.duration[line] - stall - recompute, 0);
    const high = (floor - 8) / this.longest;
    let y = floor;
    [rest, recompute, Math.min(stall, run.duration[line])].forEach((time, i) => {
      const tall = Math.min(time * high, y - 6);
      if (tall <= 0) return;
      pen.fillStyle = hues[i];
      pen.fillRect(x, y - tall, wide, tall);
      y -= tall;
    });
  }

  names(pen, floor, bar) {
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const every = Math.max(1, Math.ceil(44 / this.slot));
    for (let line = 0; line < this.count; line += this.slot >= 20 ? 1 : every) {
      const x = this.left(line) + bar / 2;
      if (Math.abs(line - this.chosen) * this.slot < 40 && this.slot < 20 && line !== this.chosen) continue;
      pen.fillStyle = color("soft");
      if (line !== this.chosen) pen.fillText(stepName(this.run, line), Math.max(x, 8), floor + 5);
    }
    if (this.chosen < 0) return;
    const x = this.left(this.chosen);
    pen.strokeStyle = pen.fillStyle = color("accent");
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, 2, bar + 2, floor - 1);
    pen.font = "bold 11px system-ui, 'DejaVu Sans', sans-serif";
    pen.fillText(stepName(this.run, this.chosen), Math.min(Math.max(x + bar / 2, 8), this.canvas.clientWidth - 12), floor + 5);
  }
}

function stallOf(run, line) { return run.head.causes.reduce((sum, _, cause) => sum + run[`stall${cause}`][line], 0); }
function stepName(run, line) { return run.step[line] === kNobody ? "all" : String(run.step[line]); }
