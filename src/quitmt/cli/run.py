"""One run from the command line: items in, results written in order, and every finished segment journaled at once."""

from __future__ import annotations

import argparse
import asyncio
import shlex
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field
from typing import Any

from quitmt.cli import options, results
from quitmt.cli.main import FAILED, INTERRUPTED, say
from quitmt.cli.progress import Progress
from quitmt.cli.results import Outputs
from quitmt.engine.driver import Driver, Item, in_order
from quitmt.errors import InputError, OutputError, QuitmtError, UsageError, counted, setting
from quitmt.failures import OneMistake
from quitmt.files.journal import PRODUCER, Journal
from quitmt.plan.build import Built
from quitmt.plan.recipe import Recipe
from quitmt.plan.sections import StopRecipe
from quitmt.protocols import GeneratorTraits, traits_of
from quitmt.rerank.anchors import TEXTS
from quitmt.rerank.specs import score_name
from quitmt.stop.window import Quit
from quitmt.types import Begun, Finished

KEEP_SECONDS = 5.0
"""Seconds between writing candidates of unfinished segments to the journal. Segments that finish sooner add
no candidates."""


class Hopeless(QuitmtError):
    """All segments so far failed because of the same mistake in user code, so continuing is pointless."""


@dataclass(slots=True)
class Run:
    driver: Driver
    outputs: Outputs
    progress: Progress
    journal: Journal | None = None
    expected: int | None = None
    """The number of items, if that is known."""
    _checks: dict[int, int] = field(default_factory=dict)
    """Position → checksum, for the segments in flight."""
    _kept: dict[int, int] = field(default_factory=dict)
    """Position → number of candidates in the journal, for segments that have been in flight for a while."""
    _mistake: OneMistake = field(default_factory=OneMistake)

    async def work(self, items: AsyncIterable[tuple[Item, int]]) -> None:
        """Process all ``items``, which come with a checksum of their content for the journal."""
        await self.driver.check()
        await self.driver.warm()
        watchers = [asyncio.create_task(self._keep_regularly()), asyncio.create_task(self._report_waiting())]
        try:
            async with aclosing(in_order(self._journaled(items))) as ordered:
                async for finished in ordered:
                    self.outputs.write(finished)
                    self.outputs.flush()
        finally:
            for watcher in watchers:
                watcher.cancel()
            self._keep_candidates(of_all=True)
        self.outputs.settle()

    async def _journaled(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[tuple[int, Finished]]:
        async with aclosing(self.driver.run(self._known(items), expected=self.expected)) as finished:
            async for position, one in finished:
                check = self._checks.pop(position, None)
                self._kept.pop(position, None)
                one = self.outputs.scored(one) if check is not None else one
                if self.journal and check is not None:
                    self.journal.add(position, one, check)
                self.progress.add(one, position)
                yield position, one
                self._mistake.add(one)
                if self._mistake:
                    raise Hopeless(str(self._mistake))

    async def _keep_regularly(self) -> None:
        while True:
            await asyncio.sleep(KEEP_SECONDS)
            self._keep_candidates()

    async def _report_waiting(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.progress.wait(self.driver.waiting)

    def _keep_candidates(self, *, of_all: bool = False) -> None:
        """Journal new candidates of segments that were already in flight at the previous call, or of all segments with
        ``of_all``. Each candidate is written once, so the journal grows no faster than a file of pools would."""
        if not self.journal:
            return
        with suppress(OutputError):  # the next finished segment will report it
            for position, begun in self.driver.drawn():
                kept = self._kept.setdefault(position, 0 if of_all else -1)
                if kept < 0:
                    self._kept[position] = 0
                elif len(begun.candidates) > kept:
                    self._kept[position] = len(begun.candidates)
                    self.journal.add_drawn(position, kept, begun, self._checks[position])

    def _say_opening(self) -> None:
        for line in self.outputs.opening:
            self.progress.say(line)
        self.outputs.opening.clear()

    async def _known(self, items: AsyncIterable[tuple[Item, int]]) -> AsyncGenerator[Item | Begun]:
        """The items, with finished segments and candidates that an earlier run left in the journal."""
        position = 0
        async for item, check in items:
            if isinstance(item, Finished):
                yield item
            elif self.journal and (done := self.journal.find(position, item, check)):
                yield done
            else:
                self._say_opening()
                self._checks[position] = check
                begun = self.journal.drawn(position, item, check) if self.journal else None
                if begun:
                    self._kept[position] = len(begun.candidates)
                yield begun or item
            position += 1
        if self.journal and position < self.journal.length:
            raise InputError(
                f"cannot resume: the input has {position} lines, fewer than the run that {self.journal.path} holds",
                hint="give the same input, or delete that file to start over",
            )
        self._say_opening()


@dataclass(frozen=True, slots=True)
class Source:
    """The properties of a run's input that all commands share."""

    unit: str
    """``lines`` or ``pools``."""
    name: str
    files: list[str]
    """All files that are read, which must not be overwritten."""
    settings: dict[str, Any]
    """Settings for the journal that the recipe doesn't contain."""
    segments: int | None = None
    """The number of segments for the progress bar, if it is known."""
    expected: int | None = None
    """The approximate number of items, if it is known; a run with a deadline plans its time with it."""
    before: int = 0
    """The number of lines before the first one of this run."""


def add_support(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--support-from", action="append", default=[], metavar="FILE",
        help="with mbr: pseudo-references to use instead of the samples, one per line; may be repeated",
    )  # fmt: skip


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe of a command. If it has pseudo-references, they judge the candidates instead of the samples."""
    recipe = options.recipe_of(args)
    support = recipe.rerank.support
    if args.support_from and support not in (None, TEXTS):
        hint = "the texts judge instead of the samples"
        raise UsageError(f"--support-from and {setting('rerank.support', support)} do not go together", hint=hint)
    if args.nbest_text and not recipe.run.nbest:
        raise UsageError("--nbest-text needs the number of candidates", hint="give --nbest 16, say")
    return recipe.changed({"rerank.support": TEXTS}) if args.support_from else recipe


def begin(args: argparse.Namespace, chosen: StopRecipe, built: Built, source: Source) -> Run:
    """Open everything for a run; ``chosen`` is the user's choice of the stopping rule."""
    recipe = built.recipe
    progress = Progress(
        built.rule.budget,
        total=source.segments,
        quiet=args.quiet,
        of=(source.unit, source.name),
        requested=recipe.stop.max_cost,
    )
    driver = built.driver(progress.observer, ranked=bool(args.keep_pools))
    settings = settings_of(built, driver) | source.settings
    files = [*source.files, *([recipe.stop.profile] if recipe.stop.profile else [])]
    outputs, journal = results.open_results(args, settings, built.rule.budget, files, before=source.before)
    outputs.opening = [*_opening(built, chosen), *outputs.opening]
    outputs.generator, outputs.score_name = built.generator.signature, score_name(recipe.rerank.name)
    return Run(driver, outputs, progress, journal, source.expected)


def _opening(built: Built, chosen: StopRecipe) -> list[str]:
    """Say which stopping rule the run uses, unless the user chose it. If it was chosen for a target, include its
    guarantee if that holds for this run; otherwise say that it is the default."""
    stop, choice = built.recipe.stop, built.choice
    if choice and stop.targets:
        void = choice.guarantee and not _keeps_guarantee(built)
        rule = f"{choice.spec}, without the guarantee of its profile" if void else str(choice)
    elif chosen.rule is None and not chosen.of_quit:
        name = choice.spec if choice else stop.rule
        rule = f"{name}, with at most {stop.n} samples: the default for {built.recipe.rerank.name} (--stop chooses)"
    else:
        return _too_small(built)
    return [f"stopping by {rule}", *_too_small(built)]


def _too_small(built: Built) -> list[str]:
    """Warn if QUIT can't stop before the budget is used up."""
    rule = built.rule
    if not isinstance(rule, Quit) or rule.step * rule.window < rule.budget:
        return []
    first = f"QUIT first looks at k·w = {rule.step * rule.window} candidates, and the budget is {rule.budget}"
    return [f"{first}: no segment can stop early (give a smaller -k or -w, or --stop auto)"]


def _keeps_guarantee(built: Built) -> bool:
    """Whether the profile's guarantee holds for this run; if not, warnings have said why."""
    plan = built.plan
    if plan.choice is None or plan.choice.profile is None:
        return False
    recorded = traits_of(built.generator, GeneratorTraits).recorded
    sampled, shape = None if recorded else built.generator.signature, (plan.step, plan.budget)
    return not any(plan.choice.profile.differences(sampled, plan.recipe.model.languages, shape))


def settings_of(built: Built, driver: Driver) -> dict[str, Any]:
    """The settings that change results, for the journal: the fields of the recipe, and the run's signature."""
    fields = {
        f"{section}.{name}": value
        for section, values in built.recipe.of_results().items()
        for name, value in values.items()
        if (section, name) != ("stop", "profile")  # the signature has the profile's rule, wherever the file is
    }
    nbest = {"run.nbest": built.recipe.run.nbest} if built.recipe.run.nbest else {}  # changes outcomes, nothing else
    return {**fields, **nbest, PRODUCER: driver.signature}


def execute(run: Run, items: AsyncIterable[tuple[Item, int]], words: list[str]) -> int:
    """Process all items, report how the run ended, and return the exit code. ``words`` are the command-line
    arguments."""
    done = False
    try:
        with closing(run.outputs):
            asyncio.run(run.work(items))
        done = run.progress.failed == 0
    except KeyboardInterrupt:
        run.progress.close()
        say(f"interrupted; {_how_to_resume(run, words)}")
        return INTERRUPTED
    except Hopeless as error:
        run.progress.close(summary=False)
        say(f"stopped: {error}: {run.progress.first_error}")
        hint = f"quitmt --debug {words[0]} … shows the traceback"
        say(f"{_how_to_resume(run, words, 'continue when it is fixed')}; {hint}")
        return FAILED
    finally:
        run.progress.close(summary=done)
        if run.journal:
            run.journal.close(done=done)
    if wasted := run.driver.wasted:
        tokens = f" and {wasted.tokens} tokens" if wasted.tokens else ""
        say(f"{wasted.candidates} candidates{tokens} were generated but not needed")
    if done:
        return 0
    failed = run.progress.failed
    say(f"{counted(failed, 'segment')} failed{', the first' if failed > 1 else ''} with: {run.progress.first_error}")
    if run.outputs.text:
        say(f"{counted(failed, 'line')} of the output {'is' if failed == 1 else 'are'} blank instead")
    say(_how_to_resume(run, words, "retry"))
    return FAILED


def _how_to_resume(run: Run, words: list[str], purpose: str = "continue") -> str:
    if run.journal is None:
        return f"to be able to {purpose}, write to a file with -o FILE"
    again = words if "--resume" in words else [*words, "--resume"]
    return f"to {purpose}: {shlex.join(['quitmt', *again])}"
