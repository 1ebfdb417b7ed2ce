// Convert between bytes and text, and compress.

export const to_base64 = (bytes) => btoa(String.fromCharCode(...bytes));
export const from_base64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
export const encoded = (text) => new TextEncoder().encode(text);
export const decoded = (bytes) => new TextDecoder().decode(bytes);

// Return bytes after a CompressionStream or a DecompressionStream.
export const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
