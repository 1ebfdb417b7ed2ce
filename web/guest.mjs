// Describe a run to the guest, and read its answer.

const quoted = (value) => `'${`${value}`.replaceAll("'", "'\\''")}'`;
const encoded = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

// Return the script that lets the guest do a run; web/init has the meaning of the variables.
export function script({ source, original, program, ...more }) {
  const variables = {
    ...more,
    program: program ?? `./${more.name}`,
    source: source === undefined ? "" : encoded(source),
    original: original === undefined ? "" : encoded(original),
  };
  const set = Object.entries(variables).map(([name, value]) => `${name}=${quoted(value ?? "")}`);
  return `${set.join("\n")}\nlesson`;
}

// Return the files of a tar archive; each has a header of 512 bytes with its name and, in octal, its length.
function files(archive) {
  const found = {};
  for (let at = 0; at < archive.length && archive[at]; ) {
    const text = (from, to) => new TextDecoder().decode(archive.subarray(at + from, at + to)).replace(/[\0 ].*$/s, "");
    const bytes = parseInt(text(124, 136), 8);
    found[text(0, 100)] = archive.slice(at + 512, at + 512 + bytes);
    at += 512 + 512 * Math.ceil(bytes / 512);
  }
  return found;
}

// Return the files of an answer: the captures as bytes, and everything else as text.
export async function sections(answer) {
  const bytes = Uint8Array.from(atob(answer.trim().split("\n").at(-1)), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = files(new Uint8Array(await new Response(stream).arrayBuffer()));
  const words = Object.entries(found).map(([name, file]) => [name, name.startsWith("packets") ? file : new TextDecoder().decode(file).trim()]);
  return Object.fromEntries(words);
}
