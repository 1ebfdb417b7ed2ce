// The box "Run it here" has a form, and shows the packets that a Linux in this page sends.
import { analyse, median, share } from "./segments.mjs";
import { start } from "./machine.mjs";

const BASE = new URL("./", import.meta.url);
const MESSAGES = 8;
// The guest has 80 MB of memory, and it must answer within a minute.
const MAX_BYTES = 200_000;
// Shorter pauses may be the emulator's. Those of the lesson's timers are longer.
const EMULATED_MS = 20;
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
  const options = Object.entries(choices).map(([value, label]) => element("option", { value }, label));
  return element("select", { name }, ...options);
}

const number = (name, value, max) => element("input", { name, type: "number", value, min: 1, max, required: "" });

function form(page) {
  const field = (label, control) => element("label", {}, label, control);
  const fields = [
    field("Mode", select("mode", Object.fromEntries(page.modes.map((mode) => [mode, MODES[mode]])))),
    field("Writes per message", number("writes", page.writes, 100)),
    field("Bytes per write", number("bytes", page.bytes, 20000)),
    field("Round trip", select("rtt", { 0: "none added", 50: "50 ms", 100: "100 ms" })),
  ];
  if (page.mtu) fields.push(field("MTU", select("mtu", Object.fromEntries(page.mtu.map((mtu) => [`m${mtu}`, `${mtu} bytes`])))));
  return element("form", {}, ...fields, element("button", { type: "submit" }, "Run"));
}

const ms = (value) => `${value.toFixed(1)} ms`;

function count([first, ...later], usual) {
  const why = "a new connection acknowledges at once, and an ACK may arrive before the slow emulator’s next write; a real computer writes faster";
  return share(usual, later) + (first === usual ? "" : ` (the first message ${first}: ${why})`);
}

function summary(run) {
  const held = median(run.alike.map((message) => run.held_ms[message]));
  const wait = held < EMULATED_MS ? `none: no segment waited for an ACK longer than the emulator needs` : ms(held);
  const rows = [
    ["Segments per message", count(run.lists.map((list) => list.length), run.sizes.length), "segments"],
    ["Bytes in each segment", share(run.sizes, run.lists.slice(1)).replaceAll(",", " + "), "sizes"],
    ["Longest wait for an ACK", wait, "wait"],
  ];
  if (run.again) rows.push(["Sent again by the slow emulator", `${run.again}`, "again"]);
  return element(
    "dl",
    {},
    ...rows.flatMap(([term, value, id]) => [element("dt", {}, term), element("dd", { "data-fact": id }, value)]),
  );
}

// Return the packets and writes of one message, from its first write until the next message's first write.
function window_of(run, message) {
  const from = run.writes.find((write) => write.offset >= message * run.message_bytes).ms;
  const next = run.writes.find((write) => write.offset >= (message + 1) * run.message_bytes);
  const until = next ? next.ms : Infinity;
  const inside = ({ ms }) => ms >= from && ms < until;
  // A pause is a timer's if the packet after it releases written bytes, or if it is the requested round trip.
  const packets = run.packets.filter(inside).map((packet) => {
    const round_trip = run.rtt && !packet.client && packet.pause >= run.rtt;
    return { ...packet, timer: packet.pause >= EMULATED_MS && (packet.releases || round_trip) };
  });
  return { packets, writes: run.writes.filter(inside) };
}

function table(shown) {
  const rows = shown.packets.map((packet) => {
    const cells = [
      packet.timer ? ms(packet.pause) : "emulated",
      packet.client ? "client → server" : "server → client",
      packet.bytes || "–",
      packet.flags.join(" "),
    ];
    return element("tr", packet.timer ? { class: "wait" } : {}, ...cells.map((cell) => element("td", {}, `${cell}`)));
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

// Draw two lanes and an arrow for each packet. Only a timer's pause is to scale, since the others depend on the emulator.
function timeline(shown) {
  const [width, top, bottom, apart, ms_wide] = [640, 46, 132, 14, 6];
  const events = [...shown.writes.map((write) => ({ ...write, write: true })), ...shown.packets].sort((a, b) => a.ms - b.ms);
  const waits = [];
  let x = 70;
  let since = x; // place of the last packet
  let label = ""; // its number of bytes
  for (const event of events) {
    if (event.timer) x = Math.max(x, since + Math.min(ms_wide * event.pause, width / 2) - apart);
    x += event.write ? apart / 2 : Math.max(apart, 9 * label.length);
    label = event.bytes && !event.write ? `${event.bytes}` : "";
    if (event.timer) waits.push({ x: since, step: x - since, pause: event.pause });
    if (!event.write) since = x;
    event.x = x;
  }
  const end = Math.max(width, x + 60);
  const drawing = svg("svg", { viewBox: `0 0 ${end} 160`, width: end, height: 160, role: "img", "aria-label": "Timeline of one message; the table has its numbers" });
  for (const { x: left, step, pause } of waits) {
    drawing.append(svg("rect", { class: "wait", x: left, y: top, width: step, height: bottom - top }));
    drawing.append(svg("text", { x: left + step / 2, y: top - 10, "text-anchor": "middle" }, ms(pause)));
  }
  for (const [y, host] of [[top, "client"], [bottom, "server"]]) {
    drawing.append(svg("line", { class: "lane", x1: 60, x2: end - 20, y1: y, y2: y }));
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

function results(run) {
  const message = run.alike.includes(3) ? 3 : run.alike[0];
  const shown = window_of(run, message);
  const note =
    `Message ${message + 1} of ${run.messages}, recorded at the client. Short marks are the program’s writes, arrows are segments. ` +
    `Counts, sizes, order and timers are those of the kernel. Pauses under ${EMULATED_MS} ms are the emulator’s own time: ` +
    "do not compare them. The kernel counts its timers in steps of 4 ms, so a timer of 40 ms may end after 36 ms.";
  return [summary(run), timeline(shown), element("p", { class: "note" }, note), table(shown)];
}

// Run one measurement. The tests call this, too.
export async function measure({ mode, writes, bytes, rtt, mtu = 1500, messages = MESSAGES }, progress = () => {}) {
  machine ??= start(BASE, progress);
  machine.catch(() => (machine = null));
  const answer = await (await machine).run(`${mode} ${writes} ${bytes} ${rtt} ${mtu} ${messages}`);
  return { ...analyse(answer, { writes, bytes }), rtt };
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
      const request = { mode: values.mode, writes: Number(values.writes), bytes: Number(values.bytes), rtt: Number(values.rtt) };
      if (values.mtu) request.mtu = Number(values.mtu.slice(1));
      const run = await measure(request, loaded);
      status.textContent = "";
      output.replaceChildren(...results(run));
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
