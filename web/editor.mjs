// The box with a lesson's C program, which the reader changes, and what it did next to the original and a right solution.
import { element, facts_table } from "./elements.mjs";
import * as link_state from "./link-state.mjs";
import { run_program } from "./programs.mjs";
import { download, notice, running } from "./running.mjs";
import { strips } from "./strips.mjs";

// Copying and system calls do not cost the same here as on a processor, so the page shows no times for these lessons.
const COUNTS_ONLY = ["pipes", "sendfile", "tcp-vs-udp"];
const LIMIT_MS = 180_000; // a transfer of megabytes takes this slow processor half a minute
const UNTIMED =
  "This lesson is about what copies and system calls cost. They cost something else in this emulated processor, so the page shows counts and no rates.";
const ORIGIN =
  "The facts come from the guest's capture and its kernel's record of calls. The original and the solution ran when the guest was built. This page does " +
  "not judge the program. The check in the lab does, and it also looks at the content of the bytes, at options, and at what was read and printed. ";

const json = async (file) => (await fetch(new URL(file, import.meta.url))).json();

function commands(lesson, slug) {
  const program = `./${slug} ADDRESS PORT ${lesson.arguments}`;
  const [client, server] = lesson.listens ? [lesson.peer, program] : [program, lesson.peer];
  const link = lesson.wire ? `link: ${lesson.wire.replaceAll(";", "; ").trim()} (the course's own wire.c)` : "link: a veth pair";
  return [`server$ ${server}`, `client$ ${client}`, ...(lesson.rival ? [`client2$ ./original ADDRESS PORT ${lesson.rival}`] : []), link];
}

function results(slug, lesson, run, recorded, before, width) {
  if (run.problem && !run.facts) return [element("pre", { class: "problem" }, run.problem)];
  const yours = { label: "yours", ...run };
  const columns = [yours, { label: "the original", ...recorded.original }, { label: "a right solution", ...recorded.solution }];
  const drawn = [...columns.slice(0, 2), ...(before ? [{ label: "your run before", ...before }] : [])];
  return [
    element("pre", {}, [...commands(lesson, slug), run.output, run.problem].filter(Boolean).join("\n")),
    facts_table(columns),
    COUNTS_ONLY.includes(slug)
      ? element("p", { class: "note" }, UNTIMED)
      : strips(drawn.map(({ label, marks }) => ({ label, ...marks })), width),
    element("p", { class: "note" }, ORIGIN, download(run.capture, slug)),
  ];
}

// A line for the curious, who can look around on the guest between the runs.
function shell() {
  const line = element("input", { "aria-label": "Command", value: "on client ip address; ls /tmp", spellcheck: "false", autocapitalize: "off" });
  const button = element("button", {}, "Enter");
  const output = element("pre");
  const form = element("form", {}, line, button);
  const state = running(button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    state.during(async (linux) => output.replaceChildren(await linux.run(`cd /tmp; ${line.value}`)));
  });
  return element("details", {}, element("summary", {}, "A shell on the guest's serial port"), form, ...state.parts, output);
}

export async function editor(place) {
  const slug = place.dataset.program;
  const [lesson, recorded] = (await Promise.all([json("lessons.json"), json("recorded.json")])).map((all) => all[slug]);
  const text = element("textarea", { spellcheck: "false", rows: 24, "aria-label": `${slug}.c`, autocapitalize: "off" });
  const word = link_state.read(`${slug}.c`).text;
  text.value = (word && (await link_state.unpacked(word))) ?? lesson.source;
  const run_button = element("button", { type: "button" }, "Compile and run");
  const reset = element("button", { type: "button", class: "plain" }, "The original");
  const output = element("div", { class: "output" });
  const state = running(run_button);
  let before = null;
  run_button.addEventListener("click", () =>
    state.during(async (linux) => {
      if (text.value !== lesson.source) link_state.write(`${slug}.c`, { text: await link_state.packed(text.value) });
      const run = await run_program(linux, slug, lesson, text.value, LIMIT_MS);
      output.replaceChildren(...results(slug, lesson, run, recorded, before, Math.min(640, output.clientWidth)));
      if (run.marks) before = run;
    }),
  );
  reset.addEventListener("click", () => {
    text.value = lesson.source;
    link_state.write(`${slug}.c`, {});
  });
  const buttons = element("p", { class: "buttons" }, run_button, reset);
  place.replaceChildren(element("h3", {}, `Change ${slug}.c here`), notice(), text, buttons, ...state.parts, output, shell());
}
