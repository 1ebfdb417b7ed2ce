// Ask the questions of a lesson, and keep the answers folded until the reader has guessed. tools/book_guesses.py writes each
// question as a <details> with its answer, so a reader without scripts can open it.
const GUESSES = "tcplab guesses"; // in localStorage: the guesses by question, null if the reader asked to see the answer

function stored_guesses() {
  try {
    return JSON.parse(localStorage.getItem(GUESSES)) ?? {};
  } catch {
    return {}; // a browser may forbid the storage
  }
}

function store_guess(key, guess) {
  try {
    localStorage.setItem(GUESSES, JSON.stringify({ ...stored_guesses(), [key]: guess }));
  } catch {
    // The guess is forgotten with the page.
  }
}

function reply({ close: [lowest, highest], right, wrong }, guess) {
  if (guess >= lowest && guess <= highest) return right;
  return wrong.find(([most]) => most === null || guess <= most)?.[1] ?? "";
}

// Write a guess into the table that compares it, instead of "skipped".
function compare(question, guess) {
  for (const row of document.querySelectorAll(".cell_output tr")) {
    const [asked, guessed, ...others] = row.cells;
    if (asked.textContent.trim() !== question.ask || guess === null) continue;
    const [lowest, highest] = question.close;
    guessed.textContent = guess;
    others.at(-1).textContent = guess >= lowest && guess <= highest ? "close" : "not close";
  }
}

function field(details, answered) {
  const question = JSON.parse(details.dataset.question);
  const form = document.createElement("form");
  const max = question.choices ? `max="${question.choices}"` : "";
  form.innerHTML = `<label><span></span> <input type="number" step="any" min="${question.choices ? 1 : 0}" ${max} required></label>
    <button>Guess</button> <button type="button">Show me</button><p role="status"></p>`;
  form.querySelector("span").textContent = question.ask;
  const answer = (guess) => {
    compare(question, guess);
    form.querySelector("[role=status]").textContent = guess === null ? "" : `Your guess was ${guess}. ${reply(question, guess)}`;
    details.hidden = false;
    details.open = true;
    details.dataset.answered = "";
    answered();
  };
  const decide = (guess) => {
    store_guess(question.key, guess);
    answer(guess);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decide(Number(form.querySelector("input").value));
  });
  form.querySelector("button[type=button]").addEventListener("click", () => decide(null));
  details.hidden = true;
  details.before(form);
  const before = stored_guesses()[question.key];
  if (before !== undefined) {
    form.querySelector("input").value = before ?? "";
    answer(before);
  }
}

addEventListener("DOMContentLoaded", () => {
  const groups = [...document.querySelectorAll(".guesses")];
  const is_before = (group, other) => group.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_FOLLOWING;
  for (const group of groups) {
    const questions = [...group.querySelectorAll(".guess")];
    const folded = [...document.querySelectorAll("details.hide")].filter((one) => groups.findLast((other) => is_before(other, one)) === group);
    const answered = () => {
      if (questions.every((one) => "answered" in one.dataset)) folded.forEach((one) => (one.open = true));
    };
    for (const question of questions) field(question, answered);
  }
});
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details.hide")) details.open = true;
});
