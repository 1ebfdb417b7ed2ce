// A saved state can be restored only on the same hardware.
export const hardware = {
  memory_size: 80 << 20,
  vga_memory_size: 1 << 20,
  disable_keyboard: true,
  disable_mouse: true,
  disable_speaker: true,
};
