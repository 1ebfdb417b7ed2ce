// Draw the timeline of one message. All times are those of the capture at the client and of the client's calls.
import { element, svg, time } from "./elements.mjs";

// The processor causes shorter gaps, which have a fixed width. Longer ones are to scale.
export const PROCESSOR_MS = 0.5;
const [TOP, BOTTOM, LEFT, STEP] = [46, 132, 70, 4];

// Return the gaps between neighbouring times as {from, to, x, width}, and a function from times to places.
function axis(points, width) {
  const times = [...new Set(points.map(({ ms }) => ms))].sort((a, b) => a - b);
  const room = new Map(); // width in front of a time, so that a label does not cover the one before
  for (const { ms, label = "" } of points) room.set(ms, Math.max(room.get(ms) ?? STEP, 9 * label.length));
  const gaps = times.slice(1).map((to, index) => ({ from: times[index], to, ms: to - times[index] }));
  const long = gaps.filter(({ ms }) => ms >= PROCESSOR_MS);
  const sum = (list, value) => list.reduce((total, item) => total + value(item), 0);
  const short_width = sum(gaps, ({ ms, to }) => (ms < PROCESSOR_MS ? room.get(to) : 0));
  const per_ms = Math.min(6, Math.max(100, width - LEFT - 30 - short_width) / sum(long, ({ ms }) => ms));
  const places = new Map([[times[0], LEFT]]);
  let x = LEFT;
  for (const gap of gaps) {
    gap.x = x;
    gap.width = gap.ms < PROCESSOR_MS ? room.get(gap.to) : per_ms * gap.ms;
    places.set(gap.to, (x += gap.width));
  }
  return { gaps: long, end: x, at: (ms) => places.get(ms) };
}

// Draw two lanes, the client's calls, and an arrow for each packet, which takes half of the round-trip time. A gap is
// shaded if no packet is under way in it.
export function timeline({ packets, writes }, rtt_ms, width) {
  const flights = packets.map((packet) => {
    const there = packet.ms + (packet.client ? rtt_ms : -rtt_ms) / 2;
    return { ...packet, from: Math.min(packet.ms, there), to: Math.max(packet.ms, there) };
  });
  const label = ({ bytes }) => (bytes ? `${bytes}` : "");
  const { gaps, end, at } = axis(
    [...writes, ...flights.flatMap((flight) => [{ ms: flight.from }, { ms: flight.to, label: label(flight) }])],
    width,
  );
  const wide = Math.max(width, end + 30);
  const drawing = svg("svg", { viewBox: `0 0 ${wide} 160`, width: wide, height: 160, role: "img", "aria-label": "Timeline of one message; the table has its numbers" });
  for (const gap of gaps) {
    if (flights.some(({ from, to }) => from <= gap.from && to >= gap.to)) continue;
    drawing.append(svg("rect", { class: "wait", x: gap.x, y: TOP, width: gap.width, height: BOTTOM - TOP }));
    drawing.append(svg("text", { x: gap.x + gap.width / 2, y: TOP - 10, "text-anchor": "middle" }, time(gap.ms)));
  }
  for (const [y, host] of [[TOP, "client"], [BOTTOM, "server"]]) {
    drawing.append(svg("line", { class: "lane", x1: 60, x2: wide, y1: y, y2: y }));
    drawing.append(svg("text", { x: 0, y: y + 4 }, host));
  }
  for (const { ms } of writes) drawing.append(svg("line", { class: "write", x1: at(ms), x2: at(ms), y1: TOP - 7, y2: TOP }));
  for (const flight of flights) {
    const [from, to] = flight.client ? [TOP, BOTTOM] : [BOTTOM, TOP];
    const kind = flight.bytes ? "data" : "ack";
    const [x1, x2, tip] = [at(flight.from), at(flight.to), flight.client ? -6 : 6];
    drawing.append(svg("line", { class: kind, x1, x2, y1: from, y2: to }));
    drawing.append(svg("path", { class: kind, d: `M${x2},${to} l-4,${tip} l7,0 z` }));
    if (flight.bytes) drawing.append(svg("text", { class: "bytes", x: x2, y: flight.client ? BOTTOM + 16 : TOP - 10 }, label(flight)));
  }
  return element("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline" }, drawing);
}
