// Run a lesson's C program in the guest, on the link and against the peer of the table that the course's checks use.
import { parse } from "./capture.mjs";
import { facts } from "./facts.mjs";
import { script, sections } from "./guest.mjs";
import { marks } from "./strips.mjs";

// The kernel's record has one call per line: time, name, and arguments in hexadecimal. The dynamic linker makes none of these.
const calls_of = (text = "") =>
  text.split("\n").filter(Boolean).map((line) => {
    const [seconds, name] = line.split(" ");
    return { ms: 1000 * Number(seconds), name, fd: parseInt(/(?:\bfd|out_fd|fd_out): (\w+)/.exec(line)?.[1] ?? "0", 16), bytes: parseInt(/(?:len|count): (\w+)/.exec(line)?.[1] ?? "0", 16) };
  });

// Return a run from the sections of the guest's answer, with its problem if the program was not compiled or did not start.
export function understood(slug, answer) {
  const lost = [...(answer.recorder ?? "").matchAll(/"drops": (\d+)/g)].some(([, drops]) => Number(drops));
  if (lost) throw new Error("the recorder in the guest lost packets");
  const problem = [answer.messages, answer.problem].filter(Boolean).join("\n").replaceAll(`${slug}.c:`, "line ");
  if (!answer["packets.client"]) return { problem: problem || "no packet was recorded" };
  const capture = answer["packets.client"];
  const run = { ...parse(capture), capture, problem, output: answer.output ?? "", status: Number(answer.status), calls: calls_of(answer.calls), io: answer.io, peer: answer.peer ?? "" };
  if (!run.rows.length) return { problem: problem || run.output || `the program ended with status ${run.status} and sent nothing` };
  const rival = answer["packets.client2"] && parse(answer["packets.client2"]);
  return { ...run, facts: facts(slug, run, rival), marks: marks(run) };
}

export async function run_program(machine, slug, lesson, source, limit_ms) {
  const run = { name: slug, ...lesson, source, original: lesson.rival ? lesson.source : undefined };
  run.snaplen = slug === "send-buffer" ? 1600 : 200; // the answers are marked in the data
  return understood(slug, await sections(await machine.run(script(run), limit_ms)));
}
