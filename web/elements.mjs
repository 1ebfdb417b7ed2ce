// Make elements of the page, and words for numbers.

function filled(made, properties, children) {
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
export const element = (name, properties = {}, ...children) => filled(document.createElement(name), properties, children);
export const svg = (name, properties, ...children) => filled(document.createElementNS(SVG, name), properties, children);

export const count = (number) => number.toLocaleString("en");

export const time = (ms) => (ms < 0.5 ? `${Math.round(1000 * ms)} µs` : ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`);

// Return sizes with run lengths, as in "14 × 1448 + 324".
export function sizes(list) {
  const runs = [];
  for (const size of list) {
    const last = runs.at(-1);
    last?.size === size ? last.times++ : runs.push({ size, times: 1 });
  }
  const words = runs.map(({ size, times }) => (times > 2 ? `${times} × ${size}` : Array(times).fill(size).join(" + ")));
  return words.length > 12 ? `${words.slice(0, 8).join(" + ")} + …` : words.join(" + ");
}
