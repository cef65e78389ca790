// What happened beside each other: one lane each for compute, recompute, both copy directions and waiting.

const kCopyOut = 0, kCopyIn = 1, kDrop = 2, kCleanOut = 3;

// Marks of a lane in the order of their begins, with colours and words for each.
class Lane {
  constructor(name, step, prefix, { filter = () => true, hue, tell }) {
    const start = step[`${prefix}_t`], took = step[`${prefix}_d`];
    const places = [];
    let rising = true;
    for (let i = 0; i < start.length; ++i) {
      if (!filter(i)) continue;
      if (places.length > 0 && start[i] < start[places[places.length - 1]]) rising = false;
      places.push(i);
    }
    if (!rising) places.sort((a, b) => start[a] - start[b] || a - b);
    this.name = name;
    this.places = Uint32Array.from(places);
    this.start = Float64Array.from(this.places, (i) => start[i]);
    this.end = Float64Array.from(this.places, (i) => start[i] + took[i]);
    this.longest = 0;
    this.busy = 0;
    for (let i = 0; i < this.places.length; ++i) {
      this.longest = Math.max(this.longest, this.end[i] - this.start[i]);
      this.busy += this.end[i] - this.start[i];
    }
    this.hue = (i) => hue(this.places[i]);
    this.tell = (i) => tell(this.places[i]);
  }

  // A mark that begins before `from` may still be there.
  firstAt(from) { return lowerBound(this.start, from - this.longest); }

  markAt(time, slack) {
    let best = -1, bestGap = slack;
    for (let i = this.firstAt(time - slack); i < this.places.length && this.start[i] <= time + slack; ++i) {
      const gap = Math.max(this.start[i] - time, time - this.end[i], 0);
      if (gap < bestGap || gap === 0) { best = i; bestGap = gap; }
    }
    return best;
  }
}

function makeLanes(step, run) {
  const { names, phases, causes } = run.head;
  const time = (ticks) => formatTime(ticks * step.head.unit);
  const name = (id) => id === kNobody || names[id] === undefined ? "" : shortName(names[id]);
  const storage = (who) => who === kNobody ? "" : `${formatBytes(step.size[who])} of ${kKindWords[run.head.kinds[step.kind[who]]]}`;
  const copy = (i) => [
    [["from the device", "back to the device", "dropped", "left for free: its copy was still good"][step.cp_how[i]], storage(step.cp_who[i])],
    ["took", time(step.cp_d[i])], ["at", name(step.cp_name[i])], ...(step.cp_file[i] ? [["through", "a file"]] : [])];
  return [
    new Lane("compute", step, "op", { hue: (i) => phases[step.op_phase[i]],
      tell: (i) => [[`op ${step.op_index[i]}`, name(step.op_name[i])], ["took", time(step.op_d[i])], ["phase", phases[step.op_phase[i]]]] }),
    new Lane("recompute", step, "rc", { hue: () => "recompute",
      tell: (i) => [["ran again", name(step.rc_name[i])], ["took", time(step.rc_d[i])], ["for", name(step.rc_for[i])], ["rebuilt", storage(step.rc_who[i])]] }),
    new Lane("copies out", step, "cp", { hue: (i) => step.cp_how[i] === kCopyOut ? "out" : "unknown", filter: (i) => step.cp_how[i] !== kCopyIn, tell: copy }),
    new Lane("copies in", step, "cp", { hue: () => "in", filter: (i) => step.cp_how[i] === kCopyIn, tell: copy }),
    new Lane("waiting", step, "sl", { hue: (i) => causes[step.sl_cause[i]],
      tell: (i) => [["waited", time(step.sl_d[i])], ["why", kCauseWords[causes[step.sl_cause[i]]]], ["at", name(step.sl_name[i])], ...(step.sl_who[i] === kNobody ? [] : [["storage", storage(step.sl_who[i])]])] }),
  ];
}
