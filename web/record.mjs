// Record what each lesson's program and a right solution do in the guest: node record.mjs DIRECTORY SOLUTIONS CAPTURES
//
// DIRECTORY has the page's files and lessons.json. SOLUTIONS is a JSON file with the solutions' texts. The facts are written to
// DIRECTORY/recorded.json, and the captures into the folder CAPTURES. A lesson whose program does not run is left out.
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [directory, solutions_file, captures] = process.argv.slice(2);
const url = `${pathToFileURL(resolve(directory))}/`;
const { start } = await import(`${url}machine.mjs`);
const { run_program } = await import(`${url}programs.mjs`);
const file = (name) => readFileSync(new URL(name, url));
const fetched = async () => ({ wasm: file("v86.wasm"), state: file("state.bin.zst").buffer });
const [lessons, solutions, recorded] = [JSON.parse(file("lessons.json")), JSON.parse(readFileSync(solutions_file)), {}];
const LIMIT_MS = 900_000; // a build may share its processor
let machine = null;
for (const [slug, lesson] of Object.entries(lessons)) {
  const runs = {};
  for (const [kind, source] of [["original", lesson.source], ["solution", solutions[slug]]]) {
    const since = process.uptime();
    try {
      machine ??= await start(url, () => {}, fetched);
      const run = await run_program(machine, slug, lesson, source, LIMIT_MS);
      if (!run.facts) throw new Error(run.problem);
      runs[kind] = { facts: run.facts, marks: run.marks };
      writeFileSync(`${captures}/${slug}-${kind}.pcapng`, run.capture);
      console.log(`web: ${slug}, ${kind}: ${Math.round(process.uptime() - since)} s`);
    } catch (error) {
      machine = null;
      console.log(`web: no box in ${slug}, whose ${kind} does not run: ${error.message}`);
    }
  }
  if (runs.original && runs.solution) recorded[slug] = runs;
}
writeFileSync(new URL("recorded.json", url), JSON.stringify(recorded));
process.exit(0);
