// The machine in the page, whose serial port talks with web/init. It restores a saved state of Linux in the emulator v86, since booting would take half a minute.

import { BYTES } from "./bytes.mjs"; // of each file, written by web/build
import { encoded, to_base64 } from "./bytes-and-text.mjs";
import { hardware } from "./hardware.mjs";

const FILES = { wasm: "v86.wasm", state: "state.bin.zst" };

// Fetch the files in parallel. Call progress with the number of bytes that have arrived and their total. A server that
// compresses would announce the length of the compressed file, so the lengths come from the build.
async function load(base, progress) {
  let arrived = 0;
  const all = Object.values(FILES).reduce((sum, file) => sum + BYTES[file], 0);
  const fetched = Object.entries(FILES).map(async ([name, file]) => {
    const answer = await fetch(new URL(file, base));
    if (!answer.ok) throw new Error(`${file}: ${answer.status} ${answer.statusText}`);
    const counted = new TransformStream({
      transform(part, next) {
        progress((arrived += part.length), all);
        next.enqueue(part);
      },
    });
    return [name, await new Response(answer.body.pipeThrough(counted)).arrayBuffer()];
  });
  return Object.fromEntries(await Promise.all(fetched));
}

// The guest's clock counts instructions, 1 ns each, and jumps to the next timer while the guest is idle. Its times
// therefore depend on the guest only, and not on how busy the reader's computer is.
function guest_clock() {
  const MS_PER_INSTRUCTION = 1e-6;
  const MS_PER_TICK = 1 / 1193; // of the timer chip, which rings one tick after the end
  const real = performance.now.bind(performance);
  let [emulator, now, counted, idle] = [null, 0, 0, 0];
  const read = () => {
    if (!emulator) return real();
    const instructions = (emulator.get_instruction_counter() - counted) >>> 0; // the counter has 32 bits
    now += instructions ? instructions * MS_PER_INSTRUCTION : idle;
    counted += instructions;
    idle = 0;
    return now;
  };
  const timers = ({ run_hardware_timers, ...others }) => ({
    ...others,
    microtick: read,
    // The emulator would wait for the time that this function returns.
    run_hardware_timers(...now_and_mode) {
      idle = Math.max(0, run_hardware_timers(...now_and_mode)) + MS_PER_TICK;
      return 0;
    },
  });
  return {
    read,
    imports: (imports) => ({ ...imports, env: timers(imports.env) }),
    begin: (machine) => ([now, counted, emulator] = [real(), machine.get_instruction_counter(), machine]),
  };
}

// Import v86 with the guest's clock instead of the browser's, which v86 takes when it is imported.
async function import_v86(base, clock) {
  performance.now = clock.read;
  try {
    return (await import(new URL("libv86.mjs", base))).V86;
  } finally {
    delete performance.now;
  }
}

// The serial port's buffer is small, so the guest answers each line of a request with "+" before the next is sent.
const lines_of = (script) => [...to_base64(encoded(script)).match(/.{1,1000}/g), ""];

export async function start(base, progress, fetched = load) {
  const clock = guest_clock();
  const [V86, files] = await Promise.all([import_v86(base, clock), fetched(base, progress)]);
  const wasm = await WebAssembly.compile(files.wasm);
  const emulator = new V86({
    wasm_fn: async (imports) => (await WebAssembly.instantiate(wasm, clock.imports(imports))).exports,
    ...hardware,
    autostart: false,
  });
  let text = "";
  let heard = () => {}; // called with each end of a line
  emulator.add_listener("serial0-output-byte", (byte) => {
    text += String.fromCharCode(byte);
    if (byte === 10) heard();
  });
  await new Promise((resolve) => emulator.add_listener("emulator-loaded", resolve));
  const { cpu } = emulator.v86;
  // The emulator breaks off whenever the guest is idle, and would let another thread tell it to go on.
  const breaks = new MessageChannel();
  breaks.port2.onmessage = ({ data }) => emulator.v86.yield_callback(data);
  emulator.v86.yield = (_wait_ms, tick) => breaks.port1.postMessage(tick);
  cpu.set_jit_config(1, 1); // compile each page of code alone, since groups of 3 took 60 MB and a third more time
  // Both copies of the state are freed at once, since a browser would keep them for a while.
  const unpack_memory = cpu.unpack_memory.bind(cpu);
  cpu.unpack_memory = (pages, packed) => [unpack_memory(pages, packed), packed.buffer.transfer?.(0)];
  await emulator.restore_state(files.state);
  files.state.transfer?.(0);
  clock.begin(emulator);
  return {
    // Let the guest run a script, and return what the script prints. It may take `limit_ms`, and a minute of the guest's
    // clock, which runs ahead while the guest only waits. After an error the machine cannot be used any more.
    async run(script, limit_ms = 60_000) {
      emulator.run();
      const [begun, limits] = [clock.read(), []];
      const answer = await new Promise((resolve) => {
        const lines = lines_of(script);
        const send_line = () => {
          text = "";
          emulator.serial0_send(`${lines.shift()}\n`);
        };
        heard = () => {
          if (text === "+\n" && lines.length) send_line();
          else if (/(^|\n)END\n$/.test(text.slice(-5))) resolve(text.slice(0, -"END\n".length));
        };
        limits.push(setTimeout(resolve, limit_ms), setInterval(() => clock.read() - begun > 60_000 && resolve(), 500));
        send_line();
      });
      limits.forEach(clearTimeout);
      emulator.stop(); // an idle guest would use a processor, since its clock does not wait
      if (answer === undefined) throw new Error(`no answer from the guest within ${limit_ms / 1000} s or a minute of the guest's clock`);
      return answer;
    },
  };
}
