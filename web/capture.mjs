// Parse a capture file (pcapng) into rows like those of tcplab.segments, one per TCP or UDP segment.

const [PCAPNG_PACKET, ETHERNET, UDP] = [6, 14, 17]; // a type of block, the length of a header, a protocol
const SERVER = 2; // the last byte of 10.0.0.2
const FLAGS = [[2, "SYN"], [1, "FIN"], [4, "RST"], [8, "PSH"], [16, "ACK"]];

// Return the TCP options that matter: the window scale, and the number of SACK blocks.
function options(view, at, end) {
  const found = { wscale: -1, sack_blocks: 0 };
  while (at < end && view.getUint8(at)) {
    const length = view.getUint8(at) === 1 ? 1 : view.getUint8(at + 1);
    if (view.getUint8(at) === 3) found.wscale = view.getUint8(at + 2);
    if (view.getUint8(at) === 5) found.sack_blocks = (length - 2) / 8;
    at += length;
  }
  return found;
}

function decode(view, at) {
  const ip = at + 28 + ETHERNET;
  const fragment = view.getUint16(ip + 6) & 0x1fff;
  if (view.getUint8(ip) >> 4 !== 4 || fragment) return null;
  const transport = ip + 4 * (view.getUint8(ip) & 15);
  const protocol = view.getUint8(ip + 9);
  if (protocol !== 6 && protocol !== UDP) return null;
  const client = view.getUint8(ip + 15) !== SERVER;
  const common = {
    ns: (BigInt(view.getUint32(at + 12, true)) << 32n) + BigInt(view.getUint32(at + 16, true)),
    client,
    udp: protocol === UDP,
    port: view.getUint16(transport + (client ? 0 : 2)),
    wire_bytes: view.getUint32(at + 24, true),
    end: at + 28 + view.getUint32(at + 20, true), // of what was recorded
  };
  if (protocol === UDP) return { ...common, at: transport + 8, bytes: view.getUint16(transport + 4) - 8, flags: [] };
  const header = 4 * (view.getUint8(transport + 12) >> 4);
  const bits = view.getUint8(transport + 13);
  return {
    ...common,
    at: transport + header,
    bytes: view.getUint16(ip + 2) - (transport - ip) - header,
    flags: FLAGS.filter(([bit]) => bits & bit).map(([, name]) => name),
    seq: view.getUint32(transport + 4),
    ack: view.getUint32(transport + 8),
    window: view.getUint16(transport + 14),
    ...options(view, transport + 20, transport + header),
  };
}

// Make numbers relative to the SYNs and scale the windows, and mark what was sent before.
function relate(rows) {
  const connections = new Map();
  for (const row of rows.filter(({ udp }) => !udp)) {
    if (!connections.has(row.port)) connections.set(row.port, { number: connections.size, ends: {} });
    const { number, ends } = connections.get(row.port);
    row.connection = number;
    const syn = row.flags.includes("SYN");
    if (syn) ends[row.client] ??= { first: row.seq, wscale: row.wscale, top: 0 };
    const [mine, other] = [ends[row.client], ends[!row.client]];
    if (!mine) continue;
    row.seq = (row.seq - mine.first) >>> 0;
    row.ack = row.flags.includes("ACK") && other ? (row.ack - other.first) >>> 0 : 0;
    if (!syn && mine.wscale >= 0 && other?.wscale >= 0) row.window *= 2 ** mine.wscale;
    const end = row.seq + row.bytes + (syn || row.flags.includes("FIN") ? 1 : 0);
    row.again = end > row.seq && row.seq < mine.top;
    mine.top = Math.max(mine.top, end);
  }
  return connections.size + new Set(rows.filter(({ udp }) => udp).map(({ port }) => port)).size; // as tcplab.segments counts
}

// Return the segments in order, with `ms` since the first, and the bytes that the client sent, zeros if they were not recorded.
export function parse(capture) {
  const view = new DataView(capture.buffer);
  const recorded = [];
  for (let at = 0; at < view.byteLength; at += view.getUint32(at + 4, true)) {
    const row = view.getUint32(at, true) === PCAPNG_PACKET && decode(view, at);
    if (row) recorded.push(row);
  }
  // A killed program's connection may end later, in the next run's capture.
  const begun = new Set(recorded.filter(({ flags }) => flags.includes("SYN")).map(({ port }) => port));
  const rows = recorded.filter(({ udp, port }) => udp || begun.has(port));
  const connections = relate(rows);
  for (const row of rows) row.ms = Number(row.ns - rows[0].ns) / 1e6;
  const fresh = rows.filter((row) => row.client && row.bytes && !row.again);
  const sent = new Uint8Array(fresh.reduce((sum, { bytes }) => sum + bytes, 0));
  let used = 0;
  for (const { at, bytes, end } of fresh) {
    sent.set(capture.subarray(at, Math.min(at + bytes, end)), used);
    used += bytes;
  }
  return { rows, connections, sent, fresh };
}
