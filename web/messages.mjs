// Find the messages in a run of tcp_nodelay_client: the segments of each, and how long the kernel held its bytes.

const equal = (one, other) => `${one}` === `${other}`;
const alike = (value, values) => values.filter((other) => equal(value, other)).length;

// Return the most frequent value, or the last one if several are equally frequent.
export function usual(values) {
  return values.reduce((best, value) => (alike(value, values) >= alike(best, values) ? value : best));
}

// Return a value with the number of messages that have it unless all have it.
export function share(value, values, words = String) {
  const times = alike(value, values);
  return times === values.length ? words(value) : `${words(value)} in ${times} of ${values.length} messages`;
}

// Return what the page shows of a run. `held_ms` of a client's segment is how long its first byte waited for an ACK. `shown` is the
// number of the message with the median wait.
export function analyse(run, { bytes, writes: per_message }) {
  if (!run.rows) throw new Error(`the guest's program failed: ${run.problem}`);
  const { messages } = JSON.parse(run.output.split("\n").find((line) => line.startsWith("{")));
  const message_bytes = bytes * per_message;
  // The program logs its writes, each of the same number of bytes, with their time in ns.
  const logged = run.log.split("\n").filter((line) => / (write|more) /.test(line));
  const start_ms = Number(run.rows[0].ns) / 1e6;
  const writes = logged.map((line, index) => ({ ms: parseInt(line) / 1e6 - start_ms, offset: (index * messages * message_bytes) / logged.length }));
  for (const [index, packet] of run.rows.entries()) {
    const before = run.rows[index - 1];
    packet.pause = before ? packet.ms - before.ms : 0;
    if (!packet.client || !packet.bytes) continue;
    packet.message = Math.floor((packet.seq - 1) / message_bytes);
    const write = writes.findLast(({ offset }) => offset <= packet.seq - 1);
    // Only an ACK that releases written bytes shows that the kernel held them.
    const held = !before.client && !before.bytes && write.ms < before.ms;
    packet.held_ms = held ? packet.ms - write.ms : 0;
  }
  const by_message = [...Array(messages).keys()].map((number) => run.fresh.filter(({ message }) => message === number));
  const lists = by_message.map((packets) => packets.map((packet) => packet.bytes));
  const sizes = usual(lists);
  const held_ms = by_message.map((packets) => Math.max(...packets.map((packet) => packet.held_ms)));
  const by_wait = [...lists.keys()].filter((message) => equal(lists[message], sizes)).sort((a, b) => held_ms[a] - held_ms[b]);
  const again = run.rows.filter((packet) => packet.client && packet.bytes && packet.again).length;
  return { ...run, writes, messages, message_bytes, lists, sizes, shown: by_wait[Math.floor(by_wait.length / 2)], held_ms, again };
}
