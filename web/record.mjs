// Run programs in the guest, and record what they do: node record.mjs DIRECTORY PROGRAMS RESULTS
//
// DIRECTORY has the page's files and lessons.json. PROGRAMS is a JSON file with the texts of programs, by lesson and name. Their facts
// are written to RESULTS/facts.json, and their captures into the same folder. A program that does not run is left out.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [directory, programs, results] = process.argv.slice(2);
const url = `${pathToFileURL(resolve(directory))}/`;
const { start } = await import(`${url}machine.mjs`);
const { run_program } = await import(`${url}programs.mjs`);
const file = (name) => readFileSync(new URL(name, url));
const fetched = async () => ({ wasm: file("v86.wasm"), state: file("state.bin.zst").buffer });
const lessons = JSON.parse(file("lessons.json"));
const LIMIT_MS = 600_000; // a build may share its processor
const recorded = {};
mkdirSync(results, { recursive: true });
let machine = null;
for (const [slug, sources] of Object.entries(JSON.parse(readFileSync(programs)))) {
  recorded[slug] = {};
  for (const [name, source] of Object.entries(sources)) {
    const since = process.uptime();
    try {
      machine ??= await start(url, () => {}, fetched);
      const run = await run_program(machine, slug, lessons[slug], source, LIMIT_MS);
      if (!run.facts) throw new Error(run.problem);
      recorded[slug][name] = { facts: run.facts, marks: run.marks };
      writeFileSync(`${results}/${slug}-${name}.pcapng`, run.capture);
      console.log(`web: ${slug}, ${name}: ${Math.round(process.uptime() - since)} s`);
    } catch (error) {
      machine = null;
      console.log(`web: ${slug}, ${name} does not run: ${error.message}`);
    }
  }
}
writeFileSync(`${results}/facts.json`, JSON.stringify(recorded));
process.exit(0);
