"use strict";
// What the page carries: packs of columns (src/report/pack.h), unpacked when they are looked at.

const kTypes = { u8: Uint8Array, u32: Uint32Array, f64: Float64Array };
const kNobody = 0xffffffff;

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function readPack(id) {
  const stream = new Blob([bytesOf(document.getElementById(id).textContent)]).stream();
  const buffer = await new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const text = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const pad = (at) => Math.ceil(at / 8) * 8;
  const pack = { head: text.head };
  let at = pad(4 + length);
  for (const [name, type, count, rising] of text.columns) {
    const column = new kTypes[type](buffer, at, count);
    if (rising) for (let i = 1; i < count; ++i) column[i] += column[i - 1];
    pack[name] = column;
    at = pad(at + column.byteLength);
  }
  return pack;
}

// The first place in rising `times` that is not below `time`.
function lowerBound(times, time) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}
