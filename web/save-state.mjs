// Boot the guest and save its state: node web/save-state.mjs DIRECTORY
//
// DIRECTORY contains libv86.mjs, v86.wasm, bios.bin, vgabios.bin, vmlinuz and initrd.gz. The state is saved there as state.bin.
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { hardware } from "./hardware.mjs";

const directory = resolve(process.argv[2]);
const { V86 } = await import(pathToFileURL(`${directory}/libv86.mjs`));
const file = (name) => ({ url: `${directory}/${name}` });
const LIMIT_S = 600;
const BOOT_MB = 112; // v86 puts the initrd at 64 MB, and the BIOS keeps the last 16 MB

const emulator = new V86({
  wasm_path: `${directory}/v86.wasm`,
  bios: file("bios.bin"),
  vga_bios: file("vgabios.bin"),
  bzimage: file("vmlinuz"),
  initrd: file("initrd.gz"),
  cmdline: `mem=${hardware.memory_size} console=ttyS0 quiet loglevel=3 tsc=reliable mitigations=off ipv6.disable=1 random.trust_cpu=on rootfstype=ramfs`,
  ...hardware,
  memory_size: BOOT_MB << 20,
  autostart: true,
});
let text = "";
emulator.add_listener("serial0-output-byte", async (byte) => {
  text += String.fromCharCode(byte);
  if (!/\bREADY\r?\n$/.test(text)) return;
  const { cpu } = emulator.v86; // the kernel uses no more memory than the page has
  cpu.mem8 = cpu.mem8.subarray(0, (cpu.memory_size[0] = hardware.memory_size));
  writeFileSync(`${directory}/state.bin`, new Uint8Array(await emulator.save_state()));
  process.exit(0);
});
setTimeout(() => {
  console.error(`the guest was not ready within ${LIMIT_S} s; its console:\n${text}`);
  process.exit(1);
}, LIMIT_S * 1000);
