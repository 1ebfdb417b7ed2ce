// The box "Run it here" has a form, and shows the packets that a Linux in this page sends.
import { analyse, share } from "./segments.mjs";
import { start } from "./machine.mjs";

const BASE = new URL("./", import.meta.url);
const MESSAGES = 8;
// The guest must answer within a minute, even on a phone.
const MAX_BYTES = 100_000;
// The processor causes shorter pauses, which are not drawn to scale.
const PROCESSOR_MS = 0.5;
const RTTS = [
  [0.2, "0.2 ms"],
  [50, "50 ms"],
  [100, "100 ms"],
];
const MODES = {
  default: "default (Nagle’s algorithm)",
  no_delay: "TCP_NODELAY",
  cork: "TCP_CORK",
  msg_more: "MSG_MORE",
  writev: "writev(), one call",
};
// Each page's modes, and the initial values of its form.
const PAGES = {
  "small-writes": { modes: ["default", "no_delay", "writev"], writes: 15, bytes: 2 },
  cork: { modes: ["default", "cork", "msg_more", "writev"], writes: 15, bytes: 2 },
  segments: { modes: ["default", "no_delay"], writes: 1, bytes: 4000, mtu: [1500, 1400, 576] },
};

let machine = null; // a promise; all boxes of a page share it

function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function select(name, choices) {
  const options = choices.map(([value, label]) => element("option", { value }, label));
  return element("select", { name }, ...options);
}

const number = (name, value, max) => element("input", { name, type: "number", value, min: 1, max, required: "" });

function form(page) {
  const field = (label, control) => element("label", {}, label, control);
  const fields = [
    field("Mode", select("mode", page.modes.map((mode) => [mode, MODES[mode]]))),
    field("Writes per message", number("writes", page.writes, 100)),
    field("Bytes per write", number("bytes", page.bytes, 20000)),
    field("Round trip", select("rtt", RTTS)),
  ];
  if (page.mtu) fields.push(field("MTU", select("mtu", page.mtu.map((mtu) => [mtu, `${mtu} bytes`]))));
  return element("form", {}, ...fields, element("button", { type: "submit" }, "Run"));
}

const time = (ms) => (ms < PROCESSOR_MS ? `${Math.round(1000 * ms)} µs` : `${ms.toFixed(1)} ms`);

function summary(run) {
  const held = run.held_ms[run.shown];
  const rows = [
    ["Segments per message", share(run.sizes.length, run.lists.map((list) => list.length)), "segments"],
    ["Bytes in each segment", share(run.sizes, run.lists).replaceAll(",", " + "), "sizes"],
    ["Longest wait for an ACK", held ? time(held) : "none, because no segment waited for an ACK", "wait"],
  ];
  if (run.again) rows.push(["Sent again", `${run.again}`, "again"]);
  return element(
    "dl",
    {},
    ...rows.flatMap(([term, value, id]) => [element("dt", {}, term), element("dd", { "data-fact": id }, value)]),
  );
}

// Return the packets and writes of one message, from its first write until the next message's first write or the FIN.
function window_of(run, message) {
  const from = run.writes.find((write) => write.offset >= message * run.message_bytes).ms;
  const next = run.writes.find((write) => write.offset >= (message + 1) * run.message_bytes);
  const end = next ?? run.packets.find((packet) => packet.flags.includes("FIN"));
  const inside = ({ ms }) => ms >= from && ms < end.ms;
  return { packets: run.packets.filter(inside), writes: run.writes.filter(inside) };
}

function table(shown) {
  const rows = shown.packets.map((packet) => {
    const cells = [
      time(packet.pause),
      packet.client ? "client → server" : "server → client",
      packet.bytes || "–",
      packet.flags.join(" "),
    ];
    return element("tr", packet.pause < PROCESSOR_MS ? {} : { class: "wait" }, ...cells.map((cell) => element("td", {}, `${cell}`)));
  });
  const head = ["Pause before", "Direction", "Bytes", "Flags"].map((title) => element("th", { scope: "col" }, title));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

function svg(name, properties, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Draw two lanes and an arrow for each packet. The processor's pauses would be too short to see if they were to scale.
function timeline(shown, width) {
  const [top, bottom, apart] = [46, 132, 14];
  const longest = Math.max(...shown.packets.map((packet) => packet.pause));
  const ms_wide = Math.min(6, width / 3 / longest);
  const events = [...shown.writes.map((write) => ({ ...write, write: true })), ...shown.packets].sort((a, b) => a.ms - b.ms);
  const waits = [];
  let x = 70;
  let since = x; // place of the last packet
  let label = ""; // its number of bytes
  for (const event of events) {
    const wait = event.pause >= PROCESSOR_MS;
    if (wait) x = Math.max(x, since + ms_wide * event.pause - apart);
    x += event.write ? apart / 2 : Math.max(apart, 9 * label.length);
    label = event.bytes && !event.write ? `${event.bytes}` : "";
    if (wait) waits.push({ x: since, step: x - since, pause: event.pause });
    if (!event.write) since = x;
    event.x = x;
  }
  const end = Math.max(width, x + 30);
  const drawing = svg("svg", { viewBox: `0 0 ${end} 160`, width: end, height: 160, role: "img", "aria-label": "Timeline of one message; the table has its numbers" });
  for (const { x: left, step, pause } of waits) {
    drawing.append(svg("rect", { class: "wait", x: left, y: top, width: step, height: bottom - top }));
    drawing.append(svg("text", { x: left + step / 2, y: top - 10, "text-anchor": "middle" }, time(pause)));
  }
  for (const [y, host] of [[top, "client"], [bottom, "server"]]) {
    drawing.append(svg("line", { class: "lane", x1: 60, x2: end, y1: y, y2: y }));
    drawing.append(svg("text", { x: 0, y: y + 4 }, host));
  }
  for (const event of events) {
    if (event.write) {
      drawing.append(svg("line", { class: "write", x1: event.x, x2: event.x, y1: top - 7, y2: top }));
      continue;
    }
    const [from, to] = event.client ? [top, bottom] : [bottom, top];
    const kind = event.bytes ? "data" : "ack";
    const tip = event.client ? -6 : 6;
    drawing.append(svg("line", { class: kind, x1: event.x, x2: event.x + 8, y1: from, y2: to }));
    drawing.append(svg("path", { class: kind, d: `M${event.x + 8},${to} l-5,${tip} l6,${tip / 3} z` }));
    if (event.bytes) drawing.append(svg("text", { class: "bytes", x: event.x + 8, y: event.client ? bottom + 16 : top - 10 }, `${event.bytes}`));
  }
  return element("div", { class: "timeline", tabindex: "0", role: "group", "aria-label": "Timeline" }, drawing);
}

function results(run, width) {
  const shown = window_of(run, run.shown);
  const note =
    `Message ${run.shown + 1} of ${run.messages}${run.held_ms[run.shown] ? ", the one with the median wait," : ""} recorded at the client. ` +
    "Short marks are the program’s writes, arrows are segments, and shaded pauses are drawn to scale. Counts, sizes, order and timers are " +
    "those of the kernel. Its clock counts instructions, one billion per second, so a busy computer does not change the times. Only pauses " +
    `under ${PROCESSOR_MS} ms depend on this slow processor, so do not compare them with your computer’s.`;
  return [summary(run), timeline(shown, width), element("p", { class: "note" }, note), table(shown)];
}

// Run one measurement. The tests call this, too.
export async function measure({ mode, writes, bytes, rtt = RTTS[0][0], mtu = 1500, messages = MESSAGES }, progress = () => {}) {
  machine ??= start(BASE, progress);
  machine.catch(() => (machine = null));
  const answer = await (await machine).run(`${mode} ${writes} ${bytes} ${rtt} ${mtu} ${messages}`);
  return analyse(answer, { writes, bytes });
}

function box(place) {
  const page = PAGES[place.dataset.page];
  const fields = form(page);
  const status = element("p", { role: "status" });
  const bar = element("progress", { max: 1, value: 0, hidden: "", "aria-label": "Loading" });
  const output = element("div", { class: "output" });
  fields.addEventListener("submit", async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(fields));
    if (values.writes * values.bytes > MAX_BYTES) {
      output.replaceChildren();
      status.textContent = `A message may have at most ${MAX_BYTES.toLocaleString("en")} bytes: choose fewer writes or fewer bytes per write.`;
      return;
    }
    const button = fields.querySelector("button");
    button.disabled = true;
    status.textContent = machine ? "The bytes are on their way …" : "Linux is loading …";
    const loaded = (arrived, all) => {
      bar.hidden = arrived === all;
      bar.value = all ? arrived / all : 0;
      status.textContent = arrived === all ? "The bytes are on their way …" : `Linux is loading, ${(arrived / 1e6).toFixed(0)} of ${(all / 1e6).toFixed(0)} MB …`;
    };
    try {
      const run = await measure(values, loaded);
      status.textContent = "";
      output.replaceChildren(...results(run, Math.min(640, output.clientWidth)));
    } catch (error) {
      status.textContent = `It did not work: ${error.message}. Reload the page to start again.`;
    } finally {
      button.disabled = false;
      bar.hidden = true;
    }
  });
  const link = (file, text) => element("a", { href: new URL(file, BASE) }, text);
  place.replaceChildren(
    element("h3", {}, "Run it here"),
    element(
      "p",
      {},
      "A real Linux, kernel 6.1 of Debian 12, runs in this page and sends the bytes between two hosts. The first run loads 15 MB (",
      link("SOURCES.txt", "sources"),
      ", ",
      link("LICENSE-v86.txt", "licence of v86"),
      ").",
    ),
    fields,
    status,
    bar,
    output,
  );
}

for (const place of document.querySelectorAll(".run-it-here")) box(place);
