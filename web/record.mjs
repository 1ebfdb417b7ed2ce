// Record what each lesson's program and a right solution do in the guest: node web/record.mjs DIRECTORY
//
// DIRECTORY has the page's files, lessons.json, and solutions.json with the solutions' texts. It writes recorded.json there.
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const directory = `${pathToFileURL(resolve(process.argv[2]))}/`;
const { start } = await import(`${directory}machine.mjs`);
const { run_program } = await import(`${directory}programs.mjs`);
const file = (name) => readFileSync(new URL(name, directory));
const json = (name) => JSON.parse(file(name));
const fetched = async () => ({ wasm: file("v86.wasm"), state: file("state.bin.zst").buffer });
const machine = await start(directory, () => {}, fetched);
const [lessons, solutions, recorded] = [json("lessons.json"), json("solutions.json"), {}];
for (const [slug, lesson] of Object.entries(lessons)) {
  recorded[slug] = {};
  for (const [kind, source] of [["original", lesson.source], ["solution", solutions[slug]]]) {
    const run = await run_program(machine, slug, lesson, source, 240_000);
    console.error(`${slug}, ${kind}: ${Math.round(process.uptime())} s`);
    if (!run.facts) throw new Error(`${slug}, ${kind}: ${run.problem}`);
    recorded[slug][kind] = { facts: run.facts, marks: run.marks };
  }
}
writeFileSync(new URL("recorded.json", directory), JSON.stringify(recorded));
process.exit(0);
