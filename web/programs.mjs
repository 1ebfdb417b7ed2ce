// Run a program in the guest, on the link and against the peer that a table gives, and understand what the guest recorded.
import { parse } from "./capture.mjs";
import { facts } from "./facts.mjs";
import { script, sections } from "./guest.mjs";
import { marks } from "./strips.mjs";

// The kernel's record has one call per line: time, name, and arguments in hexadecimal. The dynamic linker makes none of these.
function calls_of(text, start_ms) {
  return text.split("\n").filter(Boolean).map((line) => {
    const [seconds, name] = line.split(" ");
    return { ms: 1000 * Number(seconds) - start_ms, name, fd: parseInt(/(?:\bfd|out_fd|fd_out): (\w+)/.exec(line)?.[1] ?? "0", 16) };
  });
}

// Return the run that an answer of the guest describes. It has only a problem if the program was not compiled or sent nothing.
function understood(name, answer) {
  const lost = [...(answer.recorder ?? "").matchAll(/"drops": (\d+)/g)].some(([, drops]) => Number(drops));
  if (lost) throw new Error("the recorder in the guest lost packets");
  const { output = "", status, io, log, "packets.client": capture, "packets.client2": rival } = answer;
  const problem = [answer.messages, answer.problem].filter(Boolean).join("\n").replaceAll(`${name}.c:`, "line ");
  if (!capture) return { problem: problem || "no packet was recorded" };
  const parsed = parse(capture);
  if (!parsed.rows.length) return { problem: problem || output || `the program ended with status ${status} and sent nothing` };
  const calls = calls_of(answer.calls ?? "", Number(parsed.rows[0].ns) / 1e6);
  return { ...parsed, capture, problem, output, calls, io, log, rival: rival && parse(rival) };
}

export const run_in = async (machine, run, limit_ms) => understood(run.name, await sections(await machine.run(script(run), limit_ms)));

export async function run_program(machine, slug, lesson, source, limit_ms) {
  const snaplen = slug === "send-buffer" ? 1600 : 200; // the answers are marked in the data
  const run = await run_in(machine, { name: slug, ...lesson, source, original: lesson.rival && lesson.source, snaplen }, limit_ms);
  return run.rows ? { ...run, facts: facts(slug, run), marks: marks(run) } : run;
}
