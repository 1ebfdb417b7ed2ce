// The box "Run it here" has a form, and shows the segments of a message that a Linux in this page sends.
import { editor } from "./editor.mjs";
import { count, element, facts_table, sizes, table, time } from "./elements.mjs";
import { question } from "./first-page.mjs";
import * as link_state from "./link-state.mjs";
import { analyse, share } from "./messages.mjs";
import { run_in } from "./programs.mjs";
import { computer, download, notice, running } from "./running.mjs";
import { strips } from "./strips.mjs";
import { PROCESSOR_MS, timeline } from "./timeline.mjs";

const MESSAGES = 8;
const MAX_BYTES = 100_000; // so that the guest answers within a minute, even on a phone
const RTTS_MS = [0.2, 50, 100];
const ACKS = [["on", "delayed, as usual"], ["always", "at once"]];
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

const select = (name, choices) => element("select", { name }, ...choices.map(([value, label]) => element("option", { value }, label)));
const number = (name, value, max) => element("input", { name, type: "number", value, min: 1, max, required: "" });

function form(page) {
  const field = (label, control) => element("label", {}, label, control);
  const fields = [
    field("Mode", select("mode", page.modes.map((mode) => [mode, MODES[mode]]))),
    field("Writes per message", number("writes", page.writes, 100)),
    field("Bytes per write", number("bytes", page.bytes, 20000)),
    field("Round trip", select("rtt", RTTS_MS.map((rtt) => [rtt, `${rtt} ms`]))),
    field("The server’s ACKs", select("acks", ACKS)),
  ];
  if (page.mtu) fields.push(field("MTU", select("mtu", page.mtu.map((mtu) => [mtu, `${mtu} bytes`]))));
  return element("form", {}, ...fields, element("button", { type: "submit" }, "Run"));
}

function summary(run) {
  const held = run.held_ms[run.shown];
  return [
    ["Segments per message", share(run.sizes.length, run.lists.map((list) => list.length))],
    ["Bytes in each segment", share(run.sizes, run.lists, sizes)],
    ["Longest wait for an ACK", held ? time(held) : "none, because no segment waited for an ACK"],
    ...(run.again ? [["Sent again", run.again]] : []),
  ];
}

// Return the packets and writes of one message, from its first write until the next message's first write or the FIN.
function window_of(run, message) {
  const from = run.writes.find((write) => write.offset >= message * run.message_bytes).ms;
  const next = run.writes.find((write) => write.offset >= (message + 1) * run.message_bytes);
  const end = next ?? run.rows.find((packet) => packet.flags.includes("FIN"));
  const inside = ({ ms }) => ms >= from && ms < end.ms;
  return { packets: run.rows.filter(inside), writes: run.writes.filter(inside) };
}

function packets_table({ packets }) {
  const rows = packets.map(({ pause, client, bytes, flags }) => [time(pause), client ? "client → server" : "server → client", bytes || "–", flags.join(" ")]);
  return table(["Pause before", "Direction", "Bytes", "Flags"], rows);
}

// Name the settings that the numbers below were measured with.
function caption({ mode, writes, bytes, rtt, mtu, acks }) {
  const more = (mtu ? `, MTU ${mtu}` : "") + (acks === "always" ? ", ACKs at once" : "");
  return `${MODES[mode]}, ${writes} × ${bytes} bytes, round trip ${rtt} ms${more}`;
}

// The shown message for a drawing next to others.
export function message_marks(run) {
  const { packets, writes } = window_of(run, run.shown);
  const of = (client) => packets.filter((packet) => packet.client === client && packet.bytes).map(({ ms }) => ms - writes[0].ms);
  return { client: of(true), server: of(false), end: packets.findLast(({ bytes }) => bytes).ms - writes[0].ms };
}

export function results(run, settings, width) {
  const shown = window_of(run, run.shown);
  const note =
    `Message ${run.shown + 1} of ${run.messages}${run.held_ms[run.shown] ? ", the one with the median wait," : ""} recorded at the client. Short marks are the ` +
    `program’s writes, and arrows are segments. Gaps from ${PROCESSOR_MS} ms on are drawn to scale. They are shaded if no segment is under way. Counts, sizes, ` +
    "order and timers are those of the kernel. Its clock counts instructions, one billion per second, so a busy computer does not change the times. " +
    `Only pauses under ${PROCESSOR_MS} ms depend on this slow processor, so do not compare them with your computer’s.`;
  return [facts_table([{ label: caption(settings), facts: summary(run) }]), timeline(shown, Number(settings.rtt), width), element("p", { class: "note" }, note), packets_table(shown)];
}

// Run one measurement on a machine. The tests call this, too.
export async function measure({ mode, writes, bytes, rtt = RTTS_MS[0], mtu = 1500, acks = "on", messages = MESSAGES }, linux = computer()) {
  const size = `--writes ${writes} --write-bytes ${bytes}`;
  const run = {
    program: `tcp_nodelay_client --json --log log ${size}`,
    arguments: `${messages} ${mode}`,
    peer: `tcp_nodelay_server ${size} --quickack ${acks} 0 ${messages}`,
    wire: `set both delay_ns=${Math.round(rtt * 500_000)} rate_bps=0 queue_packets=1000;`,
    mtu,
  };
  return analyse(await run_in(await linux, run), { writes, bytes });
}

function box(place) {
  const slug = place.dataset.page;
  const page = PAGES[slug];
  const fields = form(page);
  for (const [name, value] of Object.entries(link_state.read(slug))) {
    const control = fields.elements[name];
    if (control) control.value = value;
    if (control && !control.value) control.selectedIndex = 0; // a mode that this page does not have
  }
  const output = element("div", { class: "output" });
  const state = running(fields.querySelector("button"));
  let before = null;
  fields.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(fields));
    link_state.write(slug, values);
    if (values.writes * values.bytes > MAX_BYTES) {
      output.replaceChildren();
      state.status.textContent = `A message may have at most ${count(MAX_BYTES)} bytes: choose fewer writes or fewer bytes per write.`;
      return;
    }
    state.during(async (linux) => {
      const run = await measure(values, linux);
      const shown = { label: caption(values), ...message_marks(run) };
      const width = Math.min(640, output.clientWidth);
      const compared = before ? [element("h4", {}, "This run and the one before, on one scale"), strips([shown, before], width)] : [];
      output.replaceChildren(...results(run, values, width), ...compared, element("p", { class: "note" }, download(run.capture, slug)));
      before = shown;
    });
  });
  place.replaceChildren(element("h3", {}, "Run it here"), notice(), fields, ...state.parts, output);
}

for (const place of document.querySelectorAll("[data-page]")) box(place);
for (const place of document.querySelectorAll("[data-program]")) editor(place);
for (const place of document.querySelectorAll(".first-page")) question(place);
