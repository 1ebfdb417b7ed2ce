// Compute what a lesson's program did, from the capture and the kernel's record of its calls. A fact is a number, a list of
// sizes or a text. The functions mirror properties of tcplab.course.short_c.Ran; whether a program is right is not decided here.

const sum = (values) => values.reduce((total, value) => total + value, 0);
const most = (values) => values.reduce((best, value) => Math.max(best, value), 0);

// The segments of each connection.
const of_each = ({ rows, connections }) => [...Array(connections).keys()].map((number) => rows.filter(({ connection }) => connection === number));

// The number of groups of the client's segments that other segments separate.
function groups({ rows }) {
  let [count, heard] = [0, true];
  for (const { client, bytes, again } of rows) {
    if (client && bytes && !again) {
      count += heard;
      heard = false;
    } else heard ||= !client;
  }
  return count;
}

// The bytes that all connections together have reached at each segment.
function reached(rows, bytes) {
  const tops = [];
  return rows.map((row) => {
    tops[row.connection] = Math.max(tops[row.connection] ?? 0, bytes(row));
    return sum(tops);
  });
}

const left = ({ rows }) => reached(rows, (row) => (row.client && row.bytes ? row.seq + row.bytes - 1 : 0));
const acked = ({ rows }) => reached(rows, (row) => (row.client ? 0 : row.ack - 1));

// The bytes in flight just after each of the client's segments.
function in_flight(run) {
  const acks = acked(run);
  return left(run).map((bytes, at) => bytes - acks[at]).filter((_, at) => run.rows[at].client && run.rows[at].bytes);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length ? (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2 : 0;
}

const scale = ({ rows }) => rows.find((row) => !row.client && row.flags.includes("SYN"))?.wscale;

// The largest window in the second half of a transfer to the server, as it can only grow with the data that arrives.
function window({ rows }) {
  const acks = rows.filter((row) => !row.client && !row.flags.includes("SYN"));
  return most(acks.slice(acks.length >> 1).map((row) => row.window));
}

// The bytes that had left the client at each answer of the server.
const left_at_answers = (run) => left(run).filter((_, at) => !run.rows[at].client && run.rows[at].bytes && !run.rows[at].again);

// The bytes of older records that left between each question of the server and the record that answers it on the same connection.
function older_bytes(run, record_bytes = 1448) {
  if (run.connections > 1) return "there is more than one connection";
  const answers = [];
  for (let at = 0; at < run.sent.length; at += record_bytes) if (run.sent[at] === 33) answers.push(at);
  return left_at_answers(run).slice(0, answers.length).map((left, index) => answers[index] - left);
}

function sack_before_repair({ rows }) {
  const repair = rows.findIndex((row) => row.client && row.bytes && row.again);
  if (repair < 0) return "nothing was sent again";
  return rows.slice(0, repair).some((row) => !row.client && row.sack_blocks) ? "yes" : "no";
}

// The share of the bytes that the server acknowledged while both programs were sending, in %.
function share(run) {
  const both = [run, run.rival];
  if (both.some((one) => !one?.fresh.length)) return "one of them sent nothing";
  const from = both.map(({ fresh }) => fresh[0].ns).reduce((a, b) => (a > b ? a : b));
  const to = both.map(({ fresh }) => fresh.at(-1).ns).reduce((a, b) => (a < b ? a : b));
  const until = (run, ns) => sum(of_each(run).map((rows) => most(rows.filter((row) => !row.client && row.ns <= ns).map(({ ack }) => ack - 1))));
  const [mine, other] = both.map((run) => until(run, to) - until(run, from));
  return Math.round((100 * mine) / Math.max(mine + other, 1));
}

// The ACK of a FIN counts one more than the bytes that left.
const acknowledged = (run) => sum(of_each(run).map((rows) => Math.min(most(left({ rows })), most(acked({ rows })))));

const moved = ({ calls }) => calls.filter(({ name, fd }) => fd > 2 && /^(read|write|send|recv|splice)/.test(name)).length;
const sending = ({ calls }) => calls.filter(({ name, fd }) => fd > 2 && /^(write|send|splice)/.test(name));
const pauses = (run, least_ms) => sending(run).filter((call, index, all) => index && call.ms - all[index - 1].ms >= least_ms).length;
const copied = ({ io }) => io && sum([...io.matchAll(/rchar: (\d+)/g)].map(([, bytes]) => Number(bytes)));

const BYTES = ["Bytes sent", ({ sent }) => sent.length];
const SIZES = ["Segments", ({ fresh }) => fresh.map(({ bytes }) => bytes)];
const CONNECTIONS = ["Connections", ({ connections }) => connections];
const CALLS = ["Calls that send", (run) => sending(run).length];
// One message if the program reads each answer before it sends more.
const BETWEEN = ["Most bytes between two answers", (run) => most(left_at_answers(run).map((left, index, all) => left - (all[index - 1] ?? 0)))];
const ACKNOWLEDGED = ["Bytes acknowledged", acknowledged];
const LONGEST = ["Longest packet (bytes)", ({ fresh }) => most(fresh.map(({ wire_bytes }) => wire_bytes - 14))];

// The facts of each lesson, in addition to those of all lessons.
const FACTS = {
  "the-lab": [CONNECTIONS, SIZES, BETWEEN],
  "small-writes": [SIZES, BETWEEN],
  cork: [SIZES, BETWEEN, ["Groups of segments with an ACK between them", groups]],
  "records-and-quotes": [["Pauses of 30 ms or more between calls that send", (run) => pauses(run, 30)]],
  buffers: [["Window scale in the SYN-ACK", scale], ["Largest window, second half (bytes)", window], ACKNOWLEDGED],
  "send-buffer": [["Older bytes before each answer", (run) => older_bytes(run)], ["Most bytes in flight", (run) => most(in_flight(run))]],
  "slow-start": [CONNECTIONS],
  loss: [["A SACK reported the gap before the repair", sack_before_repair], SIZES],
  queues: [["Median of the bytes in flight", (run) => median(in_flight(run))], ["Segments that left with nothing else in flight", (run) => in_flight(run).filter((bytes) => bytes <= 1448).length]],
  sharing: [CONNECTIONS, ["Share of the bytes acknowledged while both sent (%)", share]],
  pipes: [["Bytes that read() copied into the program", copied]],
  sendfile: [["Calls that read, write or send", moved]],
  segments: [LONGEST, SIZES],
  "path-mtu": [ACKNOWLEDGED, LONGEST],
  "tcp-vs-udp": [["Trips through the kernel", ({ fresh }) => fresh.length], ["Longest trip (bytes)", ({ fresh }) => most(fresh.map(({ bytes }) => bytes))]],
};

// Return a run's facts as [label, value].
export function facts(slug, run) {
  return [BYTES, CALLS, ...FACTS[slug]].map(([label, value]) => [label, value(run) ?? "–"]);
}
