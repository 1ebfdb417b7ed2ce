// Keep a box's state in the page's address: #SLUG?NAME=VALUE&…

const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

export function read(slug) {
  const [name, query] = location.hash.slice(1).split("?");
  return name === slug && query ? Object.fromEntries(new URLSearchParams(query)) : {};
}

export function write(slug, values) {
  history.replaceState(null, "", `#${slug}?${new URLSearchParams(values)}`);
}

// Return a text compressed for an address, and the text of such a word, or null if it is damaged.
export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(word) {
  try {
    const bytes = Uint8Array.from(atob(word.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
    return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
  } catch {
    return null;
  }
}
