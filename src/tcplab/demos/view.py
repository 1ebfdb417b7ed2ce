"""Show a demo in the page, with its panel, the steps, the votes and one large answer."""

import functools
import os
import pickle
import threading
import time
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from tcplab.demos import phones
from tcplab.demos.steps import Step
from tcplab.tables import digits
from tcplab.widgets.panels.wire import AT_START
from tcplab.widgets.view import BUSY, WAITS, PanelView, group

#: A step whose run lasts at least this many seconds shows the sliders for the lecturer to move.
GOES_ON_S: Final = 60


class DemoView(PanelView):
    """The widgets of a demo, laid out to fit on a projector's 1280 x 720 pixels."""

    heading = "h1"  # a demo fills a page, while a panel is part of a lesson

    def __init__(self, panel: Any, steps: Sequence[Step]) -> None:
        import ipywidgets as w

        self.panel, self._steps = panel, steps
        self._number = 0  # index of the step
        self._votes = [[0] * len(step.options) for step in steps]
        self._before: dict[int, list[int]] = {}  # the first votes of steps with a second vote
        self._ballots = list(range(len(steps)))  # number of each step's present vote
        self._counted: dict[int, dict[str, int]] = {}  # the phones' votes, by ballot, that are in
        if panel.state and panel.state.exists():
            kept = pickle.loads(panel.state.read_bytes())
            self._number, self._votes, self._before, self._ballots, self._counted, panel.runs = kept
            panel.restore(self.step.settings)
        titles = [f"{number} · {step.title}" for number, step in enumerate(steps, 1)]
        look = {"description": "Steps", "orientation": "horizontal"}
        self.steps = w.RadioButtons(options=titles, index=self._number, **look)
        self.steps.add_class("tcplab-steps")
        self.ask = w.HTML().add_class("tcplab-ask")
        self.answer = w.HTML().add_class("tcplab-answer")
        self.ballot = group("ballot")
        self._fill_ballot()
        super().__init__(panel)
        self.widget.add_class("tcplab-demo")
        self.steps.observe(self._go, "index")
        if panel.phones:
            threading.Thread(target=self._follow_phones, daemon=True).start()

    @property
    def step(self) -> Step:
        return self._steps[self._number]

    @property
    def shown(self) -> dict[str, Any] | None:
        """The last run with the settings of the step, or the last run if there is none."""
        same = [run for run in self.panel.runs if run["values"] == self.step.settings]
        return next(reversed(same), super().shown)

    @property
    def answered(self) -> dict[str, Any] | None:
        """The run that is shown, or None if its settings are not those of the step."""
        now = self.shown
        return now if now and now["values"] == self.step.settings else None

    @property
    def shows_model(self) -> bool:
        """True once the question is answered, because the audience votes first."""
        return self.answered is not None

    def row_names(self, names: list[str]) -> list[str]:
        """Return the steps of the runs, because a question may refer to an earlier step."""
        settings = [step.settings for step in self._steps]
        named = zip(names, self.panel.runs, strict=True)
        return [
            f"Step {settings.index(run['values']) + 1}"
            if run["values"] in settings
            else name.partition(" ·")[0]
            for name, run in named
        ]

    def refresh(self) -> None:
        """Show the step's question, and the answer once it has been measured."""
        step, run = self.step, self.answered
        self.ask.value = f"<p>{escape(step.ask)}</p>"
        answer = self._code if step.options and self.shown else ""
        if run:
            answer = ""
            if run["headline"] is not None and step.options:
                answer = (
                    f"<strong>{digits(run['headline'])} {escape(self.panel.spec.unit)}</strong>"
                )
            answer += f"<p>{escape(step.explain)}</p>"
        self.answer.value = answer
        if self.panel.phones:
            options = [] if run else [option.label for option in step.options]
            question = self._ballots[self._number], step.ask, options, os.getpid()
            phones.write(self.panel.state.with_name(phones.QUESTION), question)
        self._show_votes()
        super().refresh()
        self._keep()

    @property
    def waits(self) -> str:
        """The phones' address, or the usual text, because the audience votes before the run."""
        return self._code or WAITS

    @functools.cached_property
    def _code(self) -> str:
        """The address of the page for phones as a QR code and as text, or empty without one."""
        if not (address := self.panel.phones):
            return ""
        import segno

        code = segno.make(address, micro=False).svg_inline(scale=8, omitsize=True)
        named = f'<div role="img" aria-label="QR code of {address}">{code}</div>'
        return f'<div class="tcplab-phones">{named}<p>Vote at {address}</p></div>'

    def _keep(self) -> None:
        """Write the state to a file, from which a reloaded page continues."""
        if self.panel.state and self.panel.phase not in BUSY:
            kept = self._number, self._votes, self._before, self._ballots, self._counted
            self.panel.state.write_bytes(pickle.dumps((*kept, self.panel.runs)))

    def _arranged(self) -> list[Any]:
        import ipywidgets as w

        full = w.Button(description="Full screen").add_class("tcplab-full")
        again = w.Button(description="Vote again").add_class("tcplab-again")
        again.on_click(lambda _button: self._vote_again())
        why = w.Button(description="Why? (W)").add_class("tcplab-why")
        acting = [field for name, field in self.fields.items() if name not in AT_START]
        others = [field for name, field in self.fields.items() if name in AT_START]
        shown = (self.asked, self.numbers, self.origin, self.files)
        self._sliders, more = group("more", *acting), group("more", *others, *shown)
        fold = w.Checkbox(description="Settings and numbers", indent=False)
        fold.observe(lambda change: self._unfold(change["new"], self._sliders, more), "value")
        self._unfold(False, self._sliders, more)
        self._fold = fold
        head = group("head", self.title, fold, again, why, full)
        left = group("controls", self.ballot, *self.actions, self.answer, self.comparison)
        body = group("body", left, group("output", self.frame))
        return [head, self.steps, self.ask, body, self._sliders, more]

    def _unfold(self, shown: bool, *groups: Any) -> None:
        for folded in groups:
            folded.layout.display = None if shown else "none"

    def _go(self, change: Any) -> None:
        with self.panel.lock:
            self._number = change["new"]
            self._fill_ballot()
            self._fold.value = False
            goes_on = self.step.settings.get("seconds", 0) >= GOES_ON_S
            self._unfold(goes_on, self._sliders)
            (self.widget.add_class if goes_on else self.widget.remove_class)("tcplab-by-hand")
            self.panel.set(**self.step.settings)

    # ---- votes ----

    def _fill_ballot(self) -> None:
        import ipywidgets as w

        votes = self._votes[self._number]
        rows = []
        for index, option in enumerate(self.step.options):
            count = w.BoundedIntText(
                votes[index],
                max=999,
                description=f"Votes for {option.label}",
                continuous_update=True,
            )
            count.observe(lambda change, index=index: self._vote(index, change["new"]), "value")
            rows.append(group("vote", count, w.HTML().add_class("tcplab-share")))
        self.ballot.children = rows

    def _vote(self, index: int, count: int) -> None:
        self._votes[self._number][index] = count
        self._show_votes()
        self._keep()

    def _vote_again(self) -> None:
        """Start a second vote, after a discussion. The first one stays next to it."""
        votes = self._votes[self._number]
        self._before[self._number], self._votes[self._number] = votes, [0] * len(votes)
        self._ballots[self._number] = max(self._ballots) + 1
        self._fill_ballot()
        self.refresh()

    def _follow_phones(self) -> None:
        # The page may be loaded again, and the kernel of the earlier page lives on for a while.
        while phones.read(self.panel.state.with_name(phones.QUESTION), [0])[-1] == os.getpid():
            time.sleep(0.5)
            counts = phones.read(self.panel.state.with_name(phones.COUNTS), {})
            with self.panel.lock:
                self._count(counts.get(str(self._ballots[self._number]), {}))

    def _count(self, counts: dict[str, int]) -> None:
        """Add to the fields what the phones' votes have changed. The lecturer may type others."""
        before = self._counted.get(self._ballots[self._number], {})
        self._counted[self._ballots[self._number]] = counts
        for option, count in enumerate(row.children[0] for row in self.ballot.children):
            count.value += counts.get(str(option), 0) - before.get(str(option), 0)

    def _show_votes(self) -> None:
        votes, run = self._votes[self._number], self.answered
        before = self._before.get(self._number, [0] * len(votes))
        measured = run["headline"] if run and self.step.options else None
        right = None if measured is None else self.step.right(measured)
        every = zip(self.ballot.children, self.step.options, votes, before, strict=True)
        for row, option, count, first in every:
            share, was = count / (sum(votes) or 1), first / (sum(before) or 1)
            mark = "✔ " if option is right else ""
            percent = f"{100 * was:.0f} → " * any(before) + f"{share:.0%}" * any(votes)
            row.children[1].value = (
                f'<span class="option">{mark}{escape(option.label)}</span>'
                f'<span class="track"><span style="width:{100 * was:.0f}%" class="before"></span>'
                f'<span style="width:{100 * share:.0f}%"></span></span>'
                f'<span class="percent">{percent}</span>'
            )
            (row.add_class if option is right else row.remove_class)("tcplab-hit")
