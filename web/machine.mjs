// The machine in the page. It restores a saved state of Linux in the emulator v86, since booting would take half a minute.
//
// Requests and answers are text on the guest's serial port, whose other end is web/init.

const FILES = { wasm: "v86.wasm", state: "state.bin.zst" };

// Fetch the files in parallel. Call progress with the number of bytes that have arrived and their total.
async function load(base, progress) {
  let arrived = 0;
  const sizes = {};
  const fetched = Object.entries(FILES).map(async ([name, file]) => {
    const answer = await fetch(new URL(file, base));
    if (!answer.ok) throw new Error(`${file}: ${answer.status} ${answer.statusText}`);
    sizes[name] = Number(answer.headers.get("Content-Length"));
    const parts = [];
    for (const reader = answer.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      arrived += value.length;
      progress(arrived, Object.values(sizes).reduce((sum, size) => sum + size, 0));
    }
    return [name, await new Blob(parts).arrayBuffer()];
  });
  return Object.fromEntries(await Promise.all(fetched));
}

export async function start(base, progress) {
  const [{ V86 }, files] = await Promise.all([import(new URL("libv86.mjs", base)), load(base, progress)]);
  const wasm = await WebAssembly.compile(files.wasm);
  const emulator = new V86({
    wasm_fn: async (imports) => (await WebAssembly.instantiate(wasm, imports)).exports,
    initial_state: { buffer: files.state },
    ...hardware,
    autostart: true,
  });
  let text = "";
  let answered = () => {};
  emulator.add_listener("serial0-output-byte", (byte) => {
    text += String.fromCharCode(byte);
    if (byte !== 10 || !/\nEND\r?\n$/.test(text.slice(-6))) return;
    answered(text.replaceAll("\r", ""));
    text = "";
  });
  await new Promise((resolve) => emulator.add_listener("emulator-started", resolve));
  return {
    // Run one measurement and return the guest's text.
    async run(request, limit_ms = 60_000) {
      emulator.serial0_send(`${request}\n`);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no answer from the guest within ${limit_ms / 1000} s`)), limit_ms);
        answered = (answer) => {
          // The guest also answers an earlier request that reached its limit.
          if (!answer.includes(`BEGIN ${request}\n`)) return;
          clearTimeout(timer);
          resolve(answer);
        };
      });
    },
  };
}

// A saved state can be restored only on the same hardware.
export const hardware = {
  memory_size: 80 << 20,
  vga_memory_size: 1 << 20,
  disable_keyboard: true,
  disable_mouse: true,
  disable_speaker: true,
};
