// The box "Run it here" has a form, and shows the packets that a Linux in this page sends.
import { element, sizes, time } from "./elements.mjs";
import { start } from "./machine.mjs";
import { analyse, share } from "./segments.mjs";
import { PROCESSOR_MS, timeline } from "./timeline.mjs";

const BASE = new URL("./", import.meta.url);
const MESSAGES = 8;
// The guest must answer within a minute, even on a phone.
const MAX_BYTES = 100_000;
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

function summary(run) {
  const held = run.held_ms[run.shown];
  const rows = [
    ["Segments per message", share(run.sizes.length, run.lists.map((list) => list.length)), "segments"],
    ["Bytes in each segment", share(run.sizes, run.lists, sizes), "sizes"],
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

// Name the settings that the numbers below were measured with.
function caption({ mode, writes, bytes, rtt, mtu }) {
  const segments = mtu ? `, MTU ${mtu}` : "";
  return element("h4", {}, `${MODES[mode]}, ${writes} × ${bytes} bytes, round trip ${rtt} ms${segments}`);
}

function results(run, settings, width) {
  const shown = window_of(run, run.shown);
  const note =
    `Message ${run.shown + 1} of ${run.messages}${run.held_ms[run.shown] ? ", the one with the median wait," : ""} recorded at the client. ` +
    `Short marks are the program’s writes, and arrows are segments. Gaps from ${PROCESSOR_MS} ms on are drawn to scale. They are shaded if no ` +
    "segment is under way. Counts, sizes, order and timers are " +
    "those of the kernel. Its clock counts instructions, one billion per second, so a busy computer does not change the times. Only pauses " +
    `under ${PROCESSOR_MS} ms depend on this slow processor, so do not compare them with your computer’s.`;
  return [caption(settings), summary(run), timeline(shown, Number(settings.rtt), width), element("p", { class: "note" }, note), table(shown)];
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
      bar.value = arrived / all;
      status.textContent = arrived === all ? "Linux is starting …" : `Linux is loading, ${(arrived / 1e6).toFixed(0)} of ${(all / 1e6).toFixed(0)} MB …`;
    };
    try {
      const run = await measure(values, loaded);
      status.textContent = "";
      output.replaceChildren(...results(run, values, Math.min(640, output.clientWidth)));
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
