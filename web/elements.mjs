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

// Make a table. A row is a list of cells, the first of which is its heading if `named`.
export function table(head, rows, named = false) {
  const heading = (scope, text) => element("th", { scope }, text);
  const cells = (row) => row.map((cell, index) => (named && !index ? heading("row", cell) : element("td", {}, `${cell}`)));
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row))));
  const titles = head.map((title) => (title ? heading("col", title) : element("td")));
  return element("table", {}, element("thead", {}, element("tr", {}, ...titles)), body);
}

// Make a table of the facts of runs, each with a label and facts, which are pairs of a name and a value.
export function facts_table(runs) {
  const rows = runs[0].facts.map(([name], index) => [name, ...runs.map(({ facts }) => shown(facts[index][1]))]);
  return element("div", { class: "wide facts" }, table(["", ...runs.map(({ label }) => label)], rows, true));
}

const shown = (value) => (Array.isArray(value) ? sizes(value) || "none" : typeof value === "number" ? count(value) : value);
