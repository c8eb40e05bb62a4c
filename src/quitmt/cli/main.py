"""The command line: parse, call, print. Results to standard output, everything else to standard error.

Exit codes: 0 all well; 1 some segments failed; 2 bad usage, input or output; 130 interrupted; 141 closed pipe.
A command's module is imported when that command is asked for, so that the help does not wait for numpy.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from quitmt._version import __version__
from quitmt.errors import QuitmtError, Speaker, counted, nearest, speaking, unknown
from quitmt.files.outputs import ClosedPipe

if TYPE_CHECKING:
    from quitmt.cli.run import Run
    from quitmt.engine.driver import Item

COMMANDS = {
    "demo": "see what reranking and early stopping do, on a few sentences",
    "translate": "translate lines of text",
    "batch": "translate files of any size on many machines, with Ray",
    "serve": "serve translations over HTTP, by the APIs that clients already speak",
    "rerank": "choose from recorded candidates",
    "export": "make training data of scored candidates",
    "recipe": "print what a run would be made of, ready to save",
    "score": "score translations by chrF++, COMET, … or a function of yours",
    "compare": "test whether systems are equivalent",
    "calibrate": "find the cheapest stopping rule that keeps a guarantee",
    "lab": "study stopping rules on your own model and data",
    "models": "list the kinds of models and metrics; get translation models for other languages",
}
"""What each does, in the order of the help. ``quitmt.cli.NAME`` has its ``add_parser``."""

FAILED, BAD, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.refuse(message, f"see {self.prog} --help")

    def refuse(self, message: str, hint: str) -> NoReturn:
        self.exit(BAD, f"{visible(f'{self.prog}: {message} ({hint})')}\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        is_command = isinstance(action, argparse._SubParsersAction)
        kind = "command" if is_command else f"value of {'/'.join(action.option_strings) or action.dest}"
        error = unknown(kind, str(value), map(str, action.choices))
        self.refuse(error.args[0], str(error.hint))


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]  # not subscriptable when it runs
    """At first each command is a name and a line of help; the one that is asked for gets its parser from its module."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = values[0]
        own = self.load(name)
        super().__call__(parser, namespace, values, option_string)
        if strange := getattr(namespace, argparse._UNRECOGNIZED_ARGS_ATTR, None):
            see = f"see {own.prog} --help"
            hint = self._instead(strange[0].partition("=")[0], name, parser)
            own.refuse(f"unrecognized arguments: {' '.join(strange)}", f"{hint}; {see}" if hint else see)

    def load(self, name: str) -> _Parser:
        del self._name_parser_map[name]
        import_module(f"quitmt.cli.{name}").add_parser(self)
        found: _Parser = self._name_parser_map[name]
        return found

    def _instead(self, option: str, name: str, top: argparse.ArgumentParser) -> str | None:
        """Where an option that a command does not have can be found: before the command, at another one, or nearby."""
        if not option.startswith("-"):
            return None
        if option in top._option_string_actions:
            return f"it goes before the command: {top.prog} {option} {name}"
        has = {one: list(self.load(one)._option_string_actions) for one in COMMANDS}
        others = [f"{top.prog} {one}" for one, options in has.items() if option in options]
        if others:
            return f"{option} is an option of {', '.join(others)}"
        near = nearest(option, has[name], cutoff=0.6)
        return f"did you mean {near}?" if near else None


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="quitmt",
        description="Translate by sampling and reranking, and stop as soon as more candidates would not help.",
        epilog="quitmt COMMAND --help explains each, with examples.",
    )
    top.add_argument("--version", action="version", version=f"quitmt {__version__}")
    top.add_argument("--debug", action="store_true", help="log what happens, and show tracebacks")
    commands = top.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_Parser, action=_Commands
    )
    for name, meaning in COMMANDS.items():
        commands.add_parser(name, help=meaning)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a locale that lacks a character is no reason to stop
    words = list(sys.argv[1:] if argv is None else argv)
    for word in words:
        if not is_argument(word):
            say(f"the argument {word!r} is no text that a command line can have")
            return BAD
    if not words:
        parser().print_help(sys.stderr)
        return BAD
    args = parser().parse_args(words)
    args.words = words  # for those who say how to go on
    logging.basicConfig(level=logging.WARNING, format="quitmt: %(message)s")
    logging.getLogger("quitmt").setLevel(logging.DEBUG if args.debug else logging.NOTSET)
    hush(args)
    with speaking(_Flags()):
        return act(args, words)


class _Flags(Speaker):
    """Names settings by their flags; imports the tables of all engines only for a message, not for the help."""

    def setting(self, field: str, example: str | None) -> str:
        from quitmt.cli.options import as_flag

        return as_flag(field, example)


def hush(args: argparse.Namespace) -> None:
    """No bars of the libraries that load and download models, where nobody wants or sees ours: they read this when they
    are imported, which is later."""
    if getattr(args, "quiet", False) or sys.stderr is None or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def act(args: argparse.Namespace, words: list[str]) -> int:
    try:
        if hasattr(args, "act"):
            code = int(args.act(args))
            sys.stdout.flush()
            return code
        if (prepared := args.prepare(args)) is None:
            return 0
        work, items = prepared
        return run(work, items, words)
    except ClosedPipe as error:
        say(str(error))
        # Python flushes standard output once more at exit and would complain; there is nobody to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except QuitmtError as error:
        if args.debug:
            raise
        say(str(error))
        return BAD
    except OSError as error:
        if args.debug:
            raise
        say(f"cannot write: {error.strerror or error}")
        return BAD
    except KeyboardInterrupt:  # before any segment was begun
        say("interrupted")
        return INTERRUPTED


def run(work: Run, items: AsyncIterator[tuple[Item, int]], words: list[str]) -> int:
    import asyncio  # not for the help, nor for commands without a run

    from quitmt.cli.run import Hopeless

    done = False
    try:
        with closing(work.outputs):
            asyncio.run(work.work(items))
        done = work.progress.failed == 0
    except KeyboardInterrupt:
        work.progress.close()
        say(f"interrupted; {how_to_resume(work, words)}")
        return INTERRUPTED
    except Hopeless as error:
        work.progress.close(summary=False)
        say(f"stopped: {error}: {work.progress.first_error}")
        say(f"{how_to_resume(work, words, 'go on when it is mended')}; quitmt --debug {words[0]} … shows the traceback")
        return FAILED
    finally:
        work.progress.close(summary=done)
        if work.journal:
            work.journal.close(done=done)
    if wasted := work.driver.wasted:
        tokens = f" and {wasted.tokens} tokens" if wasted.tokens else ""
        say(f"{wasted.candidates} candidates{tokens} were generated for nothing")
    if done:
        return 0
    failed = work.progress.failed
    say(f"{counted(failed, 'segment')} failed{', the first' if failed > 1 else ''} with: {work.progress.first_error}")
    if work.outputs.text:
        say(f"{counted(failed, 'line')} of the output {'is' if failed == 1 else 'are'} blank instead")
    say(how_to_resume(work, words, "retry"))
    return FAILED


def how_to_resume(work: Run, words: list[str], purpose: str = "continue") -> str:
    if work.journal is None:
        return f"to be able to {purpose}, write to a file with -o FILE"
    again = words if "--resume" in words else [*words, "--resume"]
    return f"to {purpose}: {shlex.join(['quitmt', *again])}"


def say(message: str) -> None:
    if sys.stderr is not None:
        print(f"quitmt: {visible(message)}", file=sys.stderr)


def visible(message: str) -> str:
    """On one line, and nothing in it that a terminal would obey, whoever wrote it."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], message)


def is_argument(word: str) -> bool:
    """Whether it could have come from a shell: names of files may be no UTF-8, but nothing has a zero byte."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return "\0" not in word
