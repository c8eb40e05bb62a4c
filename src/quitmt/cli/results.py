"""Where the results of a run go: outputs and the journal beside them, opened before any work is done."""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

from quitmt._version import __version__
from quitmt.cli.run import Outputs
from quitmt.engine.driver import Driver
from quitmt.errors import OutputError, QuitmtError, UsageError
from quitmt.files.journal import PRODUCER, Journal
from quitmt.files.lines import count_lines
from quitmt.files.locks import same_file
from quitmt.files.outputs import NEW_FILE, STDOUT, Output
from quitmt.generate import OPTIONS
from quitmt.plan.build import Built
from quitmt.plan.fields import fields_of
from quitmt.plan.sections import SECTIONS, StopRecipe, engine_flags
from quitmt.protocols import GeneratorTraits, traits_of

STOPPED_EARLY = (
    "the pools are of a run that stopped early: they cannot show what later candidates would have brought "
    "(for that, keep the pools of a run with --stop full)"
)


def opening(built: Built, given: StopRecipe) -> list[str]:
    """Which rule the run stops by, unless the user chose it, and why: because of a target, with its guarantee if that
    holds for this run, or by default."""
    own, choice = built.recipe.stop, built.choice
    if choice and own.targets:
        void = choice.guarantee and not _keeps_guarantee(built)
        told = f"{choice.spec}, without the guarantee of its profile" if void else str(choice)
    elif given.rule is None and not given.of_quit:
        rule = choice.spec if choice else own.rule
        told = f"{rule}, with at most {own.n} samples: the default for {built.recipe.rerank.name} (--stop chooses)"
    else:
        return []
    return [f"stopping by {told}"]


def _keeps_guarantee(built: Built) -> bool:
    """Whether this run is one that the profile's guarantee is for; if not, warnings have said why."""
    plan = built.plan
    if plan.choice is None or plan.choice.profile is None:
        return False
    recorded = traits_of(built.generator, GeneratorTraits).recorded
    sampled, shape = None if recorded else built.generator.signature, (plan.step, plan.budget)
    return not any(plan.choice.profile.differences(sampled, plan.recipe.model.languages, shape))


def settings_of(built: Built, driver: Driver) -> dict[str, Any]:
    """What changes the results, for the journal: the fields of the recipe, and the signature of what it came to."""
    found = {
        f"{section}.{name}": value
        for section, fields in built.recipe.of_results().items()
        for name, value in fields.items()
        if (section, name) != ("stop", "profile")  # the rule it gave is in the signature, wherever the file lies
    }
    # In outcomes, though nothing else depends on it. Runs without it are as they were before there was such a thing.
    nbest = {"run.nbest": built.recipe.run.nbest} if built.recipe.run.nbest else {}
    return {**found, **nbest, PRODUCER: driver.signature}


def check_nbest(args: argparse.Namespace, built: Built) -> None:
    if args.nbest_text and not built.recipe.run.nbest:
        raise UsageError("--nbest-text needs to know how many candidates are wanted", hint="give --nbest 16, say")
    if args.nbest_text and getattr(args, "split", False):
        hint = "split the file first, or take --jsonl, which has the sentences of each line"
        raise UsageError("--nbest-text goes by lines, and --split by sentences", hint=hint)


def former_names() -> dict[str, str]:
    """Fields by the flags that journals named them by before there were recipes: such a run is continued too."""
    engine = {flag: f"model.options.{name}" for name, flag in engine_flags(OPTIONS).items()}
    own = {
        flag: f"{section}.{name}"
        for section, kind in SECTIONS.items()
        for name, declared in fields_of(kind).items()
        for flag in declared.flags
    }
    return engine | own


def is_finished(args: argparse.Namespace, lines: int | None) -> bool:
    """Whether ``--resume`` has nothing to do: every output is there, and no journal, which an unfinished run leaves.

    ``lines`` is how many the text must have, if that is known.
    """
    files = _files(args)
    if not (args.resume and files) or Path(f"{files[0]}.journal").exists() or not all(map(_holds_something, files)):
        return False
    written = count_lines(args.output) if args.output == files[0] and args.jsonl != STDOUT and not args.show else None
    if None not in (lines, written) and lines != written:
        raise UsageError(
            f"cannot resume: {files[0]} has {written} lines, the input has {lines}, and no journal is there",
            hint="delete that file to start over",
        )
    if not args.quiet:
        print(
            f"quitmt: {files[0]} is finished: nothing to do (settings are not compared; delete it to start over)",
            file=sys.stderr,
        )
    return True


def _holds_something(path: str) -> bool:
    return Path(path).is_file() and Path(path).stat().st_size > 0


def open_results(
    args: argparse.Namespace, settings: dict[str, Any], budget: int, inputs: list[str], *, before: int = 0
) -> tuple[Outputs, Journal | None]:
    """Open everything that will be written, before any work is done; ``settings`` are for the journal, and so is how
    many lines of the input are ``before`` those of this run."""
    _check_paths(args, [*inputs, *([args.recipe] if args.recipe else [])])
    files = _files(args)
    _keep_old_pools(args, files)
    outputs = Outputs(budget)
    try:
        # Outputs first: only who has them to himself may read the journal.
        _open_outputs(args, outputs)
        return outputs, _open_journal(args, outputs, settings, files, before=before)
    except QuitmtError:
        outputs.close()
        raise


def _keep_old_pools(args: argparse.Namespace, files: list[str]) -> None:
    """Translations are quickly made anew, and pools are not: only those of the run that is resumed are written over."""
    resumed = args.resume and Path(f"{files[0]}.journal").exists() if files else False
    if args.keep_pools in files and not resumed and _holds_something(args.keep_pools):
        raise OutputError(f"{args.keep_pools} exists, and its pools would be lost", hint=NEW_FILE)


def _named(args: argparse.Namespace) -> list[str]:
    paths = (args.output, args.jsonl, args.keep_pools, args.nbest_text)
    return [path for path in paths if path and path != STDOUT]


def _files(args: argparse.Namespace) -> list[str]:
    """Those that can be continued: a device such as /dev/null keeps nothing."""
    return [path for path in _named(args) if Path(path).is_file() or not Path(path).exists()]


def _check_paths(args: argparse.Namespace, inputs: list[str]) -> None:
    files = _files(args)
    written = [*files, *(f"{path}.journal" for path in files[:1])]
    for path in inputs:
        if any(same_file(path, other) for other in written):
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")
    if any(same_file(one, other) for one, other in combinations(written, 2)):
        raise UsageError("two outputs would go to the same file", hint="OUTPUT.journal is one of them")
    if args.show and args.jsonl == STDOUT:
        raise UsageError("--show and --jsonl both want the main output", hint="give --jsonl a FILE")


def _open_journal(
    args: argparse.Namespace, outputs: Outputs, settings: dict[str, Any], files: list[str], *, before: int
) -> Journal | None:
    """The journal beside the first file that is written; none if everything goes to standard output."""
    if not files:
        if args.resume:
            raise UsageError("--resume needs a file to continue", hint="write the output to one with -o FILE")
        return None
    pools = bool(args.keep_pools)
    settings = {**settings, "--keep-pools": pools, "version": __version__}
    journal = Journal.beside(files[0], settings, keep_candidates=pools, former=former_names(), before=before)
    done = journal.start(resume=args.resume)
    if (done or journal.begun) and not args.quiet:
        begun = f", with the candidates of {journal.begun} unfinished ones" if journal.begun else ""
        outputs.opening.append(f"continuing after {done} finished segments{begun}")
    elif journal.started_over and not args.quiet:
        told = f"{PRODUCER} has changed since the run that {journal.path} held, which finished no segment"
        print(f"quitmt: {told}: starting from the beginning", file=sys.stderr)
    return journal


def _open_outputs(args: argparse.Namespace, outputs: Outputs) -> None:
    if args.jsonl == STDOUT:
        outputs.outcomes = Output(args.output)
    else:
        outputs.outcomes = Output(args.jsonl) if args.jsonl else None
        main = Output(args.output)
        outputs.show, outputs.text = (main, None) if args.show else (None, main)
    outputs.pools = Output(args.keep_pools) if args.keep_pools else None
    outputs.nbest = Output(args.nbest_text) if args.nbest_text else None
