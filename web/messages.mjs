// Find the messages in a run of tcp_nodelay_client: the segments of each, and how long the kernel held its bytes.
import { parse } from "./capture.mjs";

// Return the writes in the client's log as {ns, offset, bytes}. The offset counts the bytes of earlier writes.
function writes(log) {
  let offset = 0;
  return log
    .split("\n")
    .filter((line) => / (write|more) /.test(line))
    .map((line) => {
      const [ns, , bytes] = line.split(" ");
      const write = { ns: BigInt(ns), offset, bytes: Number(bytes) };
      offset += write.bytes;
      return write;
    });
}

const milliseconds = (later, earlier) => Number(later - earlier) / 1e6;

const equal = (one, other) => `${one}` === `${other}`;

// Return the most frequent value, or the last one if several are equally frequent.
function usual(values) {
  const alike = (value) => values.filter((other) => equal(value, other)).length;
  return values.reduce((best, value) => (alike(value) >= alike(best) ? value : best));
}

// Return a value with the number of messages that have it unless all have it.
export function share(value, values, words = String) {
  const alike = values.filter((other) => equal(value, other)).length;
  return alike === values.length ? words(value) : `${words(value)} in ${alike} of ${values.length} messages`;
}

// Return the sizes of the segments in most messages, and the numbers of the messages that have these sizes.
export function typical(lists) {
  const number = usual(lists.map((list) => list.length));
  const sizes = usual(lists.filter((list) => list.length === number));
  return { sizes, alike: [...lists.keys()].filter((message) => equal(lists[message], sizes)) };
}

// Return what the page shows of a run, from the sections of the guest's answer. `held_ms` of a client's segment is how long
// its first byte waited for an ACK. `shown` is the number of the message with the median wait.
export function analyse(answer, { bytes: write_bytes, writes: per_message }) {
  if (!answer["packets.client"] || !answer.log) throw new Error(`the guest's program failed: ${answer.problem ?? answer.output}`);
  const lost = Number(/"drops": (\d+)/.exec(answer.recorder)[1]);
  if (lost) throw new Error(`the recorder in the guest lost ${lost} packets`);
  const { rows: all } = parse(answer["packets.client"]);
  const calls = writes(answer.log);
  const start = all[0].ns;
  const message_bytes = write_bytes * per_message;
  for (const [index, packet] of all.entries()) {
    packet.pause = index ? packet.ms - all[index - 1].ms : 0;
    if (!packet.client || !packet.bytes) continue;
    const offset = packet.seq - 1;
    packet.message = Math.floor(offset / message_bytes);
    const call = calls.findLast((write) => write.offset <= offset);
    // Only an ACK that releases written bytes shows that the kernel held them.
    const before = all[index - 1];
    const held = !before.client && !before.bytes && call.ns < before.ns;
    packet.held_ms = held ? milliseconds(packet.ns, call.ns) : 0;
  }
  for (const call of calls) call.ms = milliseconds(call.ns, start);
  const messages = JSON.parse(answer.output.split("\n").find((line) => line.startsWith("{"))).messages;
  const data = all.filter((packet) => packet.client && packet.bytes && !packet.again);
  const of_message = (number) => data.filter((packet) => packet.message === number);
  const numbers = [...Array(messages).keys()];
  const lists = numbers.map((number) => of_message(number).map((packet) => packet.bytes));
  const { sizes, alike } = typical(lists);
  const held_ms = numbers.map((number) => Math.max(...of_message(number).map((packet) => packet.held_ms)));
  const by_wait = [...alike].sort((a, b) => held_ms[a] - held_ms[b]);
  return {
    packets: all,
    writes: calls,
    messages,
    message_bytes,
    lists,
    sizes,
    shown: by_wait[Math.floor(by_wait.length / 2)],
    held_ms,
    again: all.filter((packet) => packet.client && packet.bytes && packet.again).length,
    capture: answer["packets.client"],
  };
}
