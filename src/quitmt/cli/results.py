"""Opens the outputs and the journal of a run before any work is done, and writes the results to them."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from quitmt._version import __version__
from quitmt.cli.inputs import Sentences
from quitmt.cli.progress import describe
from quitmt.engine.finishing import with_scores
from quitmt.errors import OutputError, QuitmtError, UsageError
from quitmt.files.journal import PRODUCER, Journal, journal_of
from quitmt.files.lines import count_lines
from quitmt.files.locks import same_file
from quitmt.files.outcomes import format_outcome, nbest_lines
from quitmt.files.outputs import NEW_FILE, STDOUT, Output, one_line
from quitmt.files.pools import format_pool
from quitmt.types import Finished, RecordedPool, StopReason

STOPPED_EARLY = (
    "the pools are of a run that stopped early, so they can't show what more candidates would have brought "
    "(for that, keep the pools of a run with --stop full)"
)


@dataclass(slots=True)
class Outputs:
    """The files that results go to, each of them optional. In text, a failed segment is a blank line."""

    budget: int
    generator: str = ""
    """The generator's signature, for pools."""
    recorded: dict[str, RecordedPool] = field(default_factory=dict)
    """The pools in flight that were read from a file, by id."""
    score_name: str | None = None
    """The name of the scores that pools are kept with, if any."""
    written: int = 0
    """The number of segments so far, which n-best lists count from 0."""
    text: Output | None = None
    show: Output | None = None
    outcomes: Output | None = None
    pools: Output | None = None
    nbest: Output | None = None
    sentences: Sentences | None = None
    """Joins the sentences of a line again (``--split``)."""
    opening: list[str] = field(default_factory=list)
    """Messages to print before the first new segment; until then, the input may turn out to be wrong."""

    def write(self, finished: Finished) -> None:
        outcome = finished.outcome
        if self.text:
            line: str | None = "" if outcome.stop is StopReason.FAILED else outcome.translation
            if self.sentences:
                line = self.sentences.join(finished)
            if line is not None:
                self.text.write(one_line(line))
        if self.show:
            self.show.write(describe(outcome, self.budget))
        if self.outcomes:
            self.outcomes.write(format_outcome(outcome))
        read = self.recorded.pop(outcome.id, None)
        if self.pools and finished.candidates:
            self.pools.write(format_pool(self._pool(finished, read)))
        if self.nbest and outcome.stop is not StopReason.FAILED:
            for line in nbest_lines(self.written, outcome.nbest):
                self.nbest.write(line)
        self.written += 1

    def _pool(self, finished: Finished, read: RecordedPool | None) -> RecordedPool:
        """The pool to keep. A recorded pool that was used up keeps its recorded stop reason."""
        generator = self.generator if read is None else read.generator
        used_up = read is not None and finished.outcome.stop is StopReason.EXHAUSTED
        stop = read.stop if read is not None and used_up else finished.outcome.stop.value
        return RecordedPool(finished.segment, tuple(finished.candidates), generator, tuple(finished.anchors), stop)

    def scored(self, finished: Finished) -> Finished:
        """Add the scores that pools are kept with."""
        return with_scores(finished, self.score_name) if self.pools and self.score_name else finished

    def all(self) -> list[Output]:
        return [output for output in (self.text, self.show, self.outcomes, self.pools, self.nbest) if output]

    def flush(self) -> None:
        for output in self.all():
            output.flush()

    def settle(self) -> None:
        for output in self.all():
            output.settle()

    def close(self) -> None:
        with ExitStack() as stack:  # if one can't be closed, the others are closed anyway
            for output in self.all():
                stack.callback(output.close)


def is_finished(args: argparse.Namespace, lines: int | None) -> bool:
    """Whether ``--resume`` has nothing to do: all outputs exist, and there is no journal of an unfinished run.

    ``lines`` is the number of lines that the text must have, if that is known.
    """
    files = _files(args)
    if not (args.resume and files) or journal_of(files[0]).exists() or not all(map(_has_content, files)):
        return False
    written = count_lines(args.output) if args.output == files[0] and args.jsonl != STDOUT and not args.show else None
    if None not in (lines, written) and lines != written:
        raise UsageError(
            f"cannot resume: {files[0]} has {written} lines, the input has {lines}, and there is no journal",
            hint="delete that file to start over",
        )
    if not args.quiet:
        print(
            f"quitmt: {files[0]} is finished already (delete it to start over; its settings were not compared)",
            file=sys.stderr,
        )
    return True


def open_results(
    args: argparse.Namespace, settings: dict[str, Any], budget: int, inputs: list[str], *, before: int = 0
) -> tuple[Outputs, Journal | None]:
    """Open all outputs and the journal. ``settings`` are recorded in the journal; ``before`` is the number of input
    lines before the first one of this run."""
    _check_paths(args, [*inputs, *([args.recipe] if args.recipe else [])])
    files = _files(args)
    _protect_pools(args, files)
    outputs = Outputs(budget)
    try:
        # Outputs first, because only the run that has locked them may read the journal.
        _open_outputs(args, outputs)
        return outputs, _open_journal(args, outputs, settings, files, before=before)
    except QuitmtError:
        outputs.close()
        raise


def _has_content(path: str) -> bool:
    return Path(path).is_file() and Path(path).stat().st_size > 0


def _protect_pools(args: argparse.Namespace, files: list[str]) -> None:
    """Refuse to overwrite pools, which are expensive to make, unless they are of the run that is resumed."""
    resumed = args.resume and journal_of(files[0]).exists() if files else False
    if args.keep_pools in files and not resumed and _has_content(args.keep_pools):
        raise OutputError(f"{args.keep_pools} exists, and its pools would be lost", hint=NEW_FILE)


def _files(args: argparse.Namespace) -> list[str]:
    """The outputs that can be continued, which excludes devices such as /dev/null."""
    paths = (args.output, args.jsonl, args.keep_pools, args.nbest_text)
    named = [path for path in paths if path and path != STDOUT]
    return [path for path in named if Path(path).is_file() or not Path(path).exists()]


def _check_paths(args: argparse.Namespace, inputs: list[str]) -> None:
    files = _files(args)
    written = [*files, *(str(journal_of(path)) for path in files[:1])]
    for path in inputs:
        if any(same_file(path, other) for other in written):
            raise UsageError(f"{path} is an input of this run and would be overwritten", hint="write to another file")
    if any(same_file(one, other) for one, other in combinations(written, 2)):
        raise UsageError("two outputs would go to the same file", hint="OUTPUT.journal is one of them")
    if args.show and args.jsonl == STDOUT:
        raise UsageError("--show and --jsonl both use the main output", hint="give --jsonl a FILE")


def _open_journal(
    args: argparse.Namespace, outputs: Outputs, settings: dict[str, Any], files: list[str], *, before: int
) -> Journal | None:
    """The journal beside the first output file; none if everything goes to standard output."""
    if not files:
        if args.resume:
            raise UsageError("--resume needs a file to continue", hint="write the output to one with -o FILE")
        return None
    pools = bool(args.keep_pools)
    settings = {**settings, "--keep-pools": pools, "version": __version__}
    journal = Journal(journal_of(files[0]), settings, keep_candidates=pools, before=before)
    done = journal.start(resume=args.resume)
    if (done or journal.begun) and not args.quiet:
        begun = f", with candidates of {journal.begun} unfinished ones" if journal.begun else ""
        outputs.opening.append(f"continuing after {done} finished segments{begun}")
    elif journal.started_over and not args.quiet:
        reason = f"{PRODUCER} has changed since the run that {journal.path} held, which finished no segment"
        print(f"quitmt: {reason}: starting from the beginning", file=sys.stderr)
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
