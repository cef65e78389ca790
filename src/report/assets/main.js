// Puts the parts together: reads the run, shows its last whole step, and whichever the reader picks after that.

class Page {
  async start() {
    this.run = await readPack("run");
    this.steps = new Map();
    this.showRun();
    this.strip = new StepStrip(document.getElementById("steps"), this.run, {
      onPick: (line) => this.pick(line), onHover: (event, line) => this.tellStep(event, line) });
    this.timeline = new Timeline(document.getElementById("timeline"), { onHover: (event, where) => this.tellMoment(event, where) });
    this.storages = new StorageTable(document.getElementById("storages"), { onPick: (who) => this.timeline.choose(who) });
    this.listen();
    await this.pick(this.steadyLine());
  }

  steadyLine() {
    const { run } = this;
    let best = -1;
    for (let line = 0; line < run.step.length; ++line)
      if (run.record[line] !== kNobody && (best < 0 || run.whole[line] || !run.whole[best])) best = line;
    return Math.max(best, 0);
  }

  showRun() {
    const { head, step, record } = this.run;
    document.title = `${head.title} – Spillway report`;
    document.getElementById("title").textContent = head.title;
    document.getElementById("facts").replaceChildren(...head.facts.filter(([, value]) => value.length < 60).map(([key, value]) =>
      factOf(key, value)));
    const drawn = record.reduce((sum, place) => sum + (place !== kNobody), 0);
    document.getElementById("steps-hint").textContent = `${formatCount(step.length)} recorded` +
      (drawn < step.length ? `, ${formatCount(drawn)} of them in detail (the paler ones in figures only)` : "") +
      (step.length > 1 ? "; click one to look inside" : "") + (head.truncated ? "; the trace ends abruptly" : "");
  }

  async pick(line) {
    const { run } = this, place = run.record[line];
    this.line = line;
    this.strip.choose(line);
    document.getElementById("step-title").textContent = run.step[line] === kNobody ? "The whole trace" : `Step ${run.step[line]}` + (run.whole[line] ? "" : " (cut short)");
    document.getElementById("step-card").classList.toggle("empty", place === kNobody);
    const step = place === kNobody ? null : await this.read(place);
    if (this.line !== line) return;  // another was picked meanwhile
    showFigures(run, line, step, step?.memory);
    showStalls(run, line);
    if (step) this.showStep(step); else this.showWords(null);
    document.body.dataset.step = stepName(run, line);
  }

  async read(place) {
    if (!this.steps.has(place)) {
      const step = await readPack(`record-${place}`);
      step.memory = new Memory(step, this.run.head.kinds);
      step.lanes = makeLanes(step, this.run);
      this.steps.set(place, step);
    }
    return this.steps.get(place);
  }

  showStep(step) {
    this.step = step;
    this.showLegend(step);
    this.showWords(step);
    this.timeline.show(step, step.memory, step.lanes);
    showPeak(step, step.memory, this.run);
    showOps(step, this.run);
    this.storages.show(step, this.run);
  }

  showWords(step) {
    const words = document.getElementById("step-words");
    if (!step) return void (words.textContent = "The events of this step were not kept; its figures are above. What is drawn below is the step looked at before.");
    const { plan, budget } = step.head, { device, alive } = step.memory.most, bold = (text) => make("b", { textContent: text });
    const parts = ["Took ", bold(formatTime(this.run.duration[this.line])), ", at most ", bold(formatBytes(device)), " on the device"];
    if (budget > 0) parts.push(" of ", bold(formatBytes(budget)), " allowed");
    if (step.memory.moved) parts.push(", with ", bold(formatBytes(alive)), " alive in all");
    if (plan) parts.push(`. Policy ${this.run.head.names[plan.policy]} planned ${formatBytes(plan.peak)} in ${formatTime(plan.time)}` +
      (plan.shortfall > 0 ? `, ${formatBytes(plan.shortfall)} short of the budget` : ""));
    words.replaceChildren(...parts, ".");
  }

  showLegend(step) {
    const entries = kStack.map((name, layer) => ({ name, words: kKindWords[name], there: step.memory.layersUsed.has(layer) })).filter((entry) => entry.there);
    if (step.memory.moved) entries.push({ name: "alive", words: "alive, wherever it is", stroke: true });
    document.getElementById("legend").replaceChildren(...entries.map(({ name, words, stroke }) => {
      const key = make("i", { className: stroke ? "stroke" : "" });
      key.style[stroke ? "borderColor" : "background"] = color(name);
      const button = make("button", { title: "show or hide", className: this.timeline.hidden.has(name) ? "off" : "" }, key, words);
      button.addEventListener("click", () => { this.timeline.toggle(name); button.classList.toggle("off"); });
      return button;
    }));
  }

  tellStep(event, line) {
    if (line < 0) return showTip(event);
    const { run } = this;
    showTip(event, `Step ${stepName(run, line)}`, [["took", formatTime(run.duration[line])], ["peak", formatBytes(run.peak[line])],
      ["moved", `${formatBytes(run.out[line])} out, ${formatBytes(run.in[line])} in`], ["recomputing", formatTime(run.recompute[line])], ["waiting", formatTime(stallOf(run, line))]]);
  }

  tellMoment(event, where) {
    if (!where) return showTip(event);
    const { step } = this, rows = [];
    if (where.row >= 0) {
      const mark = step.lanes[where.row].markAt(where.time, where.slack);
      if (mark < 0) return showTip(event);
      return showTip(event, step.lanes[where.row].name, step.lanes[where.row].tell(mark));
    }
    const state = step.memory.at(where.time);
    for (let layer = kStack.length - 1; layer >= 0; --layer)
      if (state.layers[layer] > 0) rows.push([kKindWords[kStack[layer]], formatBytes(state.layers[layer])]);
    rows.push(null, ["on the device", formatBytes(state.device)]);
    if (step.memory.moved) rows.push(["alive", formatBytes(state.alive)]);
    const op = lowerBound(step.op_t, where.time + 1) - 1;
    if (op >= 0) rows.push([`op ${step.op_index[op]}`, shortName(this.run.head.names[step.op_name[op]])]);
    showTip(event, formatTime(where.time * step.head.unit), rows);
  }

  listen() {
    const by = (change) => this.pick(Math.min(Math.max(this.line + change, 0), this.run.step.length - 1));
    const click = (id, act) => document.getElementById(id).addEventListener("click", act);
    click("previous", () => by(-1));
    click("next", () => by(1));
    click("zoom-in", () => this.timeline.zoom(.5));
    click("zoom-out", () => this.timeline.zoom(2));
    click("zoom-all", () => this.timeline.look(...this.timeline.all));
    document.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") by(-1);
      if (event.key === "ArrowRight") by(1);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.pick(this.line));
  }
}

const page = new Page();
page.start().then(() => requestAnimationFrame(() => requestAnimationFrame(() => {
  document.body.dataset.ready = String(Math.round(performance.now()));  // milliseconds from opening to a drawn page
})));
