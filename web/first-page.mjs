// The first page asks the question of the lesson small-writes, takes a guess, measures, and shows the answer next to the guess.
import { element, time } from "./elements.mjs";
import { running, notice } from "./running.mjs";
import { strips } from "./strips.mjs";

const SETTINGS = { mode: "default", writes: 15, bytes: 2, rtt: 0.2 };

function answer(guess_ms, run, once, { message_marks, results }, width) {
  const [shown, joined] = [run, once].map(message_marks);
  const factor = shown.end / Math.max(guess_ms, 0.001);
  const compared = factor > 1.5 ? `${factor < 10 ? factor.toFixed(1) : Math.round(factor)} times your guess` : factor < 0.67 ? "less than your guess" : "about your guess";
  const guess = { label: "your guess", client: [0], server: [guess_ms], end: guess_ms };
  return [
    element("h3", {}, `It took ${time(shown.end)}, ${compared}`),
    strips([guess, { label: "measured: 15 calls of send()", ...shown }, { label: "measured: one call of writev()", ...joined }], width),
    element(
      "p",
      {},
      `Neither the network nor the processor is that slow. When one call sent the same 30 bytes, the answer came after ${time(joined.end)}. A guess usually forgets two rules. `,
      "The sender’s kernel (Nagle’s algorithm) sends a small segment at once only if no other one is unacknowledged, so the last 28 bytes wait for an ACK. ",
      "The receiver’s kernel delays that ACK by 40 ms, in the hope that a reply can carry it. Each rule saves segments. Together they wait for each other.",
    ),
    element("p", {}, element("a", { href: "lessons/02-small-writes.html" }, "The lesson Small writes"), " shows every segment, and how three programs avoid the wait."),
    element("details", {}, element("summary", {}, "The segments of one message"), ...results(run, SETTINGS, width)),
  ];
}

export function question(place) {
  const guess = element("input", { type: "number", min: 0, step: "any", required: "", "aria-label": "Your guess in milliseconds", inputmode: "decimal" });
  const button = element("button", { type: "submit" }, "Run");
  const form = element("form", {}, element("label", {}, "Your guess in milliseconds", guess), button);
  const output = element("div", { class: "output" });
  const state = running(button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    state.during(async (linux) => {
      const box = await import("./run-it-here.mjs");
      const run = await box.measure(SETTINGS, linux);
      const once = await box.measure({ ...SETTINGS, mode: "writev" }, linux);
      output.replaceChildren(...answer(Number(guess.value), run, once, box, Math.min(640, output.clientWidth)));
    });
  });
  // The page has the question, and the answer for readers without JavaScript.
  place.querySelector(".answer")?.remove();
  place.append(form, notice(), ...state.parts, output);
}
