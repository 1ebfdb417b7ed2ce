// Draw runs below each other on one scale: a mark for each segment of the client above a line, of the server below it.
import { element, svg, time } from "./elements.mjs";

// Return the times in ms of the segments with data, as short as a drawing needs them.
export function marks({ rows }) {
  const times = (client) => [...new Set(rows.filter((row) => row.client === client && row.bytes).map(({ ms }) => Number(ms.toFixed(1))))];
  const end = Number((rows.findLast(({ bytes }) => bytes)?.ms ?? 0).toFixed(2));
  return { client: times(true), server: times(false), end };
}

// Draw a list of {label, client, server, end}; the longest run fills the width.
export function strips(runs, width) {
  const [height, right] = [46, 70];
  const per_ms = (width - right) / Math.max(...runs.map(({ end }) => end), 0.001);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height * runs.length}`, width, height: height * runs.length, role: "img" });
  drawing.setAttribute("aria-label", runs.map(({ label, end }) => `${label}: ${time(end)}`).join("; "));
  for (const [index, { label, client, server, end }] of runs.entries()) {
    const y = height * index + 30;
    drawing.append(svg("text", { x: 0, y: y - 14 }, label));
    drawing.append(svg("line", { class: "lane", x1: 0, x2: per_ms * end, y1: y, y2: y }));
    for (const [times, to, kind] of [[client, y - 9, "data"], [server, y + 7, "reply"]])
      for (const ms of times) drawing.append(svg("line", { class: kind, x1: per_ms * ms, x2: per_ms * ms, y1: y, y2: to }));
    drawing.append(svg("text", { class: "end", x: per_ms * end + 6, y: y + 4 }, time(end)));
  }
  return element("div", { class: "strips" }, drawing);
}
