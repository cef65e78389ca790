// Figures, bars and the table of storages: everything beside the drawing.

function figure(name, value, more, gauge) {
  const box = make("div", { className: "figure" }, make("div", { className: "name", textContent: name }),
    make("div", { className: "value", textContent: value }), make("div", { className: "more", textContent: more }));
  if (gauge !== undefined) {
    const fill = make("i", { className: gauge > 1 ? "over" : "" });
    fill.style.width = `${Math.min(100, 100 * gauge)}%`;
    box.append(make("div", { className: "gauge" }, fill));
  }
  return box;
}

function showFigures(run, line, step, memory) {
  const budget = step?.head.budget ?? 0, peak = run.peak[line], duration = run.duration[line], stall = stallOf(run, line);
  const plan = step?.head.plan, plain = memory?.moved ? Math.max(memory.most.alive, run.head.floor?.plain ?? 0) : 0;
  const boxes = [
    figure("Peak memory", formatBytes(peak), budget > 0 ? `of a budget of ${formatBytes(budget)}` : "no budget", budget > 0 ? peak / budget : undefined),
    figure("Step time", formatTime(duration), plan?.time ? `planned ${formatTime(plan.time)}` : `${formatCount(run.ops[line])} operators`)];
  if (plain > 0) boxes.splice(1, 0, figure("Without Spillway", formatBytes(plain), `this step took ${formatShare(peak, plain)} of it`));
  boxes.push(figure("Moved", formatBytes(run.out[line] + run.in[line]), `${formatBytes(run.out[line])} out, ${formatBytes(run.in[line])} in`),
    figure("Recomputed", formatTime(run.recompute[line]), `${formatCount(run.recomputed[line])} operators again`),
    figure("Waiting", formatTime(stall), duration > 0 ? `${formatShare(stall, duration)} of the step` : ""));
  if (run.head.floor) boxes.push(figure("Floor", formatBytes(run.head.floor.bytes), `held up by ${shortName(run.head.names[run.head.floor.op] ?? "")}`));
  document.getElementById("figures").replaceChildren(...boxes);
}

function showBars(id, bars, none) {
  const box = document.getElementById(id);
  if (bars.length === 0) return box.replaceChildren(make("div", { className: "none", textContent: none }));
  const most = Math.max(...bars.map((bar) => bar.amount));
  box.replaceChildren(...bars.flatMap(({ label, amount, text, more, hue }) => {
    const fill = make("i");
    fill.style.width = `${100 * amount / most}%`;
    fill.style.background = color(hue);
    return [make("div", { className: "label", title: label, textContent: label }), make("div", { className: "track" }, fill),
      make("div", { className: "amount" }, text, " ", make("small", { textContent: more ?? "" }))];
  }));
}

function showStalls(run, line) {
  const duration = run.duration[line];
  const bars = run.head.causes.map((cause, i) => ({ label: kCauseWords[cause], amount: run[`stall${i}`][line], hue: cause }))
    .filter((bar) => bar.amount > 0).sort((a, b) => b.amount - a.amount);
  showBars("stalls", bars.map((bar) => ({ ...bar, text: formatTime(bar.amount), more: formatShare(bar.amount, duration) })), "Nothing was waited for.");
}

function showPeak(step, memory, run) {
  const { most } = memory;
  const bars = kStack.map((name, layer) => ({ label: kKindWords[name], amount: most.layers[layer], hue: name })).filter((bar) => bar.amount > 0);
  bars.sort((a, b) => b.amount - a.amount);
  showBars("peak", bars.map((bar) => ({ ...bar, text: formatBytes(bar.amount), more: formatShare(bar.amount, most.device) })), "No memory was taken.");
  const op = Math.min(lowerBound(step.op_t, most.at), step.op_t.length - 1);
  const before = op > 0 && step.op_t[op] > most.at ? op - 1 : op;
  document.getElementById("peak-words").textContent = op < 0 ? "" :
    `${formatTime(most.at * step.head.unit)} in, at ${shortName(run.head.names[step.op_name[before]])}`;
}

function showOps(step, run) {
  const sums = new Map();
  let all = 0;
  for (let i = 0; i < step.op_t.length; ++i) {
    const sum = sums.get(step.op_name[i]) ?? sums.set(step.op_name[i], { time: 0, count: 0, hue: run.head.phases[step.op_phase[i]] }).get(step.op_name[i]);
    sum.time += step.op_d[i];
    ++sum.count;
    all += step.op_d[i];
  }
  const first = [...sums].sort((a, b) => b[1].time - a[1].time).slice(0, 8).filter(([, sum]) => sum.time > 0);
  showBars("ops", first.map(([name, sum]) => ({ label: shortName(run.head.names[name]), amount: sum.time, hue: sum.hue,
    text: formatTime(sum.time * step.head.unit), more: `${formatCount(sum.count)}×` })), "The trace holds no times of operators.");
  document.getElementById("ops-words").textContent = all > 0 ? `${formatTime(all * step.head.unit)} in ${formatCount(step.op_t.length)} operators` : "";
}

// What happened to a storage in this step, in words.
function deedsOf(storage) {
  const deeds = [];
  if (storage.out) deeds.push(`moved out ${times(storage.out)}`);
  if (storage.dropped) deeds.push(`dropped ${times(storage.dropped)}`);
  if (storage.in) deeds.push(`fetched ${times(storage.in)}`);
  if (storage.recomputed) deeds.push(`recomputed ${times(storage.recomputed)}`);
  return deeds.length ? deeds.join(", ") : "stayed";
}

// Who leaves when nothing was planned: where there are plans as without (dtr), unless by age alone.
const kAtNeed = { lru: "it had not been used for longest" }, kCheapest = "it was the cheapest to be without for long";

function reasonsOf(storage, { names, facts }) {
  const reasons = [];
  for (const decision of storage.decisions) {
    const over = decision.at === null ? "" : ` from op ${decision.at}${decision.until === null ? "" : ` to ${decision.until}`}`;
    const why = decision.why === null ? "" : `: ${names[decision.why]}`;
    reasons.push(`${decision.planned ? "plan" : "at need"}: ${kActionWords[decision.action]}${over}${why}`);
  }
  if (reasons.length) return reasons;
  const policy = facts.find(([key]) => key === "policy")?.[1];
  if (storage.out + storage.dropped > 0) return [`memory was short, and ${policy ? kAtNeed[policy] ?? kCheapest : "it could leave"}`];
  return [storage.in + storage.recomputed > 0 ? "an operator needed it" : "nothing asked for its room"];
}

const kColumns = [
  { name: "storage", key: (row) => row.id },
  { name: "size", number: true, key: (row) => -row.size },
  { name: "kind", key: (row) => row.kind },
  { name: "made by", key: (row) => row.maker },
  { name: "what happened", key: (row) => -(row.out + row.in + row.dropped + row.recomputed) },
  { name: "decided, and why" },
  { name: "cost", number: true, key: (row) => -(row.waited + row.recompute) },
];

class StorageTable {
  constructor(table, { onPick }) {
    Object.assign(this, { table, onPick, sorted: null, chosen: null });
    table.tHead.append(make("tr", {}, ...kColumns.map((column) => {
      const cell = make("th", { textContent: column.name, className: column.number ? "number" : "" });
      if (column.key) cell.addEventListener("click", () => { this.sorted = column; this.fill(); });
      return cell;
    })));
  }

  show(step, run) {
    const { names, kinds } = run.head;
    this.chosen = null;
    this.rows = step.head.storages.map((storage) => ({ ...storage, size: step.size[storage.who], kind: kinds[step.kind[storage.who]],
      maker: storage.made_by === null ? "" : shortName(names[storage.made_by]), reasons: reasonsOf(storage, run.head) }));
    this.fill();
  }

  fill() {
    const rows = [...this.rows];
    if (this.sorted) {
      const { key } = this.sorted;
      rows.sort((a, b) => typeof key(a) === "string" ? key(a).localeCompare(key(b)) : key(a) - key(b));
    }
    [...this.table.tHead.rows[0].cells].forEach((cell, i) => cell.classList.toggle("sorted", kColumns[i] === this.sorted));
    this.table.tBodies[0].replaceChildren(...rows.map((row) => this.row(row)));
  }

  row(row) {
    const dot = make("i", { className: "dot" });
    dot.style.background = color(row.kind);
    const cost = row.waited + row.recompute;
    const line = make("tr", { className: this.chosen === row.who ? "chosen" : "" },
      make("td", { textContent: `#${row.id}` }), make("td", { className: "number", textContent: formatBytes(row.size) }),
      make("td", {}, dot, kKindWords[row.kind]), make("td", {}, make("code", { textContent: row.maker || "before the step" })),
      make("td", { textContent: deedsOf(row) }), make("td", { className: "why" }, ...row.reasons.flatMap((reason, i) => i ? [make("br"), reason] : [reason])),
      make("td", { className: "number", textContent: cost > 0 ? formatTime(cost) : "–" }));
    line.addEventListener("click", () => {
      this.chosen = this.chosen === row.who ? null : row.who;
      for (const other of this.table.tBodies[0].rows) other.classList.toggle("chosen", other === line && this.chosen !== null);
      this.onPick(this.chosen);
    });
    return line;
  }
}
