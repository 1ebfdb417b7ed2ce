// Keep a box's state in the page's address: #SLUG?NAME=VALUE&…
import { decoded, encoded, from_base64, through, to_base64 } from "./bytes-and-text.mjs";

export function read(slug) {
  const [name, query] = location.hash.slice(1).split("?");
  return name === slug && query ? Object.fromEntries(new URLSearchParams(query)) : {};
}

export const write = (slug, values) => history.replaceState(null, "", `#${slug}?${new URLSearchParams(values)}`);

// Return a text compressed for an address, and the text of such a word, or null if it is damaged.
export async function packed(text) {
  const word = to_base64(await through(encoded(text), new CompressionStream("deflate-raw")));
  return word.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(word) {
  try {
    return decoded(await through(from_base64(word.replaceAll("-", "+").replaceAll("_", "/")), new DecompressionStream("deflate-raw")));
  } catch {
    return null;
  }
}
