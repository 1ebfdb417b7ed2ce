// Load and run the machine that all boxes of a page share, and say what it does.
import { element } from "./elements.mjs";
import { start } from "./machine.mjs";

const BASE = new URL("./", import.meta.url);
let machine = null; // a promise

// Let the pages that were seen work without a network from now on, if the browser can. See offline.mjs.
async function keep() {
  if (navigator.serviceWorker.controller) return; // it keeps what this page loads
  await navigator.serviceWorker.register(new URL("../../offline.mjs", BASE));
  await navigator.serviceWorker.ready;
  const loaded = performance.getEntriesByType("resource").map(({ name }) => name);
  const kept = await caches.open("tcplab");
  Promise.allSettled([location.href, ...loaded].map((address) => kept.add(address)));
}
keep().catch(() => {});

// Return the machine, which is loaded first if necessary.
export async function computer(progress = () => {}) {
  machine ??= start(BASE, progress);
  machine.catch(() => (machine = null));
  return machine;
}

// Return {parts, during}: elements for the state of a run, and a function that does some work while `button` is disabled.
export function running(button) {
  const status = element("p", { role: "status" });
  const bar = element("progress", { max: 1, value: 0, hidden: "", "aria-label": "Loading" });
  const mb = (bytes) => (bytes / 1e6).toFixed(0);
  const progress = (arrived, all) => {
    bar.hidden = arrived === all;
    bar.value = arrived / all;
    status.textContent = arrived === all ? "Linux is starting …" : `Linux is loading, ${mb(arrived)} of ${mb(all)} MB …`;
  };
  const during = async (work) => {
    button.disabled = true;
    status.textContent = machine ? "The program runs …" : "Linux is loading …";
    try {
      const linux = await computer(progress);
      status.textContent = "The program runs …";
      await work(linux);
      status.textContent = "";
    } catch (error) {
      machine = null; // the next run starts another one
      status.textContent = `It did not work: ${error.message}. Try again.`;
    } finally {
      button.disabled = false;
      bar.hidden = true;
    }
  };
  return { parts: [status, bar], status, during };
}

const link = (file, text) => element("a", { href: new URL(file, BASE) }, text);

// Say what will be loaded, before the reader decides to.
export function notice() {
  const more = [link("SOURCES.txt", "sources"), ", ", link("LICENSE-v86.txt", "licence of v86")];
  const costs = "The first run loads 16 MB and takes up to 350 MB of memory";
  return element("p", { class: "note" }, `A real Linux, kernel 6.1 of Debian 12, runs in this page. ${costs} (`, ...more, ").");
}

// Return a link that saves a capture as a file.
export function download(capture, name) {
  const href = URL.createObjectURL(new Blob([capture], { type: "application/x-pcapng" }));
  return element("a", { href, download: `${name}.pcapng`, class: "capture" }, "The segments as a .pcapng file, for Wireshark");
}
