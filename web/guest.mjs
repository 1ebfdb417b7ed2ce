// Describe a run to the guest, and read its answer.
import { decoded, from_base64, through } from "./bytes-and-text.mjs";

const quoted = (value) => `'${`${value ?? ""}`.replaceAll("'", "'\\''")}'`;

// Return the script that lets the guest do a run; web/init has the meaning of the variables.
export function script(run) {
  const variables = Object.entries({ program: `./${run.name}`, ...run });
  return `${variables.map(([name, value]) => `${name}=${quoted(value)}`).join("\n")}\nlesson`;
}

// Return the files of a tar archive; each has a header of 512 bytes with its name and, in octal, its length.
function files(archive) {
  const found = {};
  for (let at = 0; at < archive.length && archive[at]; ) {
    const text = (from, to) => decoded(archive.subarray(at + from, at + to)).replace(/[\0 ].*$/s, "");
    const bytes = parseInt(text(124, 136), 8);
    found[text(0, 100)] = archive.slice(at + 512, at + 512 + bytes);
    at += 512 + 512 * Math.ceil(bytes / 512);
  }
  return found;
}

// Return the files of an answer: the captures as bytes, and everything else as text.
export async function sections(answer) {
  const found = files(await through(from_base64(answer.trim().split("\n").at(-1)), new DecompressionStream("gzip")));
  return Object.fromEntries(Object.entries(found).map(([name, file]) => [name, name.startsWith("packets") ? file : decoded(file).trim()]));
}
