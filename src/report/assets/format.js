// Amounts and words as people read them.

function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1000 && unit < 4) { bytes /= 1024; ++unit; }
  return `${unit === 0 ? bytes : bytes.toPrecision(3)} ${units[unit]}`;
}

function formatTime(nanos) {
  const units = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
  let best = units[0];
  for (const unit of units) if (Math.abs(nanos) >= unit[1]) best = unit;
  const value = nanos / best[1];
  return `${value >= 1000 || Number.isInteger(value) ? Math.round(value) : value.toPrecision(3)} ${best[0]}`;
}

const formatCount = (count) => count.toLocaleString("en-US");

function formatShare(part, whole) {
  if (!(whole > 0)) return "";
  const percent = 100 * part / whole;
  if (percent > 0 && percent < .1) return "< 0.1 %";
  return `${percent >= 10 || percent === 0 ? Math.round(percent) : percent.toPrecision(2)} %`;
}

const times = (count) => count === 1 ? "once" : count === 2 ? "twice" : `${formatCount(count)} times`;

// "aten::convolution_backward.default" is convolution_backward to a person.
function shortName(name) {
  return name.replace(/^aten(::|\.)/, "").replace(/\.default$/, "");
}

const kKindWords = { unknown: "unknown", parameter: "parameters", gradient: "gradients", activation: "activations",
  optimizer_state: "optimizer state", input: "inputs", workspace: "workspaces", transient: "inside operators" };
const kCauseWords = { fetch: "for bytes to come back", room: "for room on the device", host_room: "for room on the host", file: "for the file" };
const kActionWords = { keep: "keep", move_out: "move out", prefetch: "prefetch", drop: "drop", recompute: "recompute" };

// A fact about the run; those that say their unit are shown in a better one.
function factOf(key, value) {
  if (key.endsWith("_bytes")) [key, value] = [key.slice(0, -6), formatBytes(Number(value))];
  if (key.endsWith("_ns")) [key, value] = [key.slice(0, -3), formatTime(Number(value))];
  return make("span", { textContent: key.replaceAll("_", " ") }, make("b", { textContent: value }));
}

function color(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }

// A DOM element; text is always text, never markup.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}
