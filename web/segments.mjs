// Parse the guest's answer: a capture of the client's interface (pcapng), the client's log and result, the recorder's result.

const PCAPNG_PACKET = 6;
const HEADERS = { ethernet: 14, tcp_protocol: 6 };
const CLIENT = 1; // the last byte of 10.0.0.1
const FLAGS = [
  [2, "SYN"],
  [1, "FIN"],
  [4, "RST"],
  [8, "PSH"],
  [16, "ACK"],
];

const decoded = (base64) => Uint8Array.from(atob(base64.trim()), (letter) => letter.charCodeAt(0));

// Return the TCP packets of a capture in order, as {ns, client, bytes, flags, seq}.
export function packets(capture) {
  const view = new DataView(capture.buffer);
  const found = [];
  for (let at = 0; at < view.byteLength; at += view.getUint32(at + 4, true)) {
    if (view.getUint32(at, true) !== PCAPNG_PACKET) continue;
    const ns = (BigInt(view.getUint32(at + 12, true)) << 32n) + BigInt(view.getUint32(at + 16, true));
    const ip = at + 28 + HEADERS.ethernet;
    if (view.getUint8(ip + 9) !== HEADERS.tcp_protocol || view.getUint8(ip) >> 4 !== 4) continue;
    const tcp = ip + 4 * (view.getUint8(ip) & 15);
    const header = 4 * (view.getUint8(tcp + 12) >> 4);
    const bits = view.getUint8(tcp + 13);
    found.push({
      ns,
      client: view.getUint8(ip + 15) === CLIENT,
      bytes: view.getUint16(ip + 2) - (tcp - ip) - header,
      flags: FLAGS.filter(([bit]) => bits & bit).map(([, name]) => name),
      seq: view.getUint32(tcp + 4),
    });
  }
  return found;
}

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

// Return what the page shows of a run. `held_ms` of a client's segment is how long its first byte waited for an ACK.
// `shown` is the number of the message with the median wait.
export function analyse(answer, { bytes: write_bytes, writes: per_message }) {
  const lines = answer.split("\n");
  const begin = lines.findIndex((line) => line.startsWith("BEGIN "));
  const [result, recorder] = lines.slice(begin).filter((line) => line.startsWith("{"));
  if (begin < 0 || !recorder) throw new Error(`the guest's program failed: ${lines.slice(0, 3).join(" ")}`);
  const lost = JSON.parse(recorder).drops;
  if (lost) throw new Error(`the recorder in the guest lost ${lost} packets`);
  const all = packets(decoded(lines[begin + 1]));
  const calls = writes(new TextDecoder().decode(decoded(lines[begin + 2])));
  const start = all[0].ns;
  const first = all.find((packet) => packet.client && packet.flags.includes("SYN")).seq + 1;
  const message_bytes = write_bytes * per_message;
  let sent = 0; // number of the client's bytes so far
  for (const [index, packet] of all.entries()) {
    packet.ms = milliseconds(packet.ns, start);
    packet.pause = index ? packet.ms - all[index - 1].ms : 0;
    if (!packet.client || !packet.bytes) continue;
    const offset = (packet.seq - first) >>> 0;
    packet.message = Math.floor(offset / message_bytes);
    packet.again = offset < sent;
    sent = Math.max(sent, offset + packet.bytes);
    const call = calls.findLast((write) => write.offset <= offset);
    // Only an ACK that releases written bytes shows that the kernel held them.
    const before = all[index - 1];
    const held = !before.client && !before.bytes && call.ns < before.ns;
    packet.held_ms = held ? milliseconds(packet.ns, call.ns) : 0;
  }
  for (const call of calls) call.ms = milliseconds(call.ns, start);
  const messages = JSON.parse(result).messages;
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
    again: all.filter((packet) => packet.again).length,
  };
}
