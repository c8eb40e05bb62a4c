"""The command line: parse, call, print. Results go to standard output, everything else to standard error.

Exit codes: 0 success; 1 some segments failed; 2 bad usage, input or output; 130 interrupted; 141 closed pipe.
A command's module is imported only when that command runs, so that the help doesn't wait for numpy.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from quitmt._version import __version__
from quitmt.errors import QuitmtError, Speaker, nearest, speaking, unknown
from quitmt.files.outputs import ClosedPipe

COMMANDS = {
    "demo": "see what reranking and early stopping do to a few sentences",
    "translate": "translate lines of text",
    "batch": "translate files of any size on many machines, with Ray",
    "serve": "serve translations over HTTP, with the APIs that clients already use",
    "rerank": "choose from recorded candidates",
    "export": "make training data from scored candidates",
    "recipe": "print all settings of a run, ready to save",
    "score": "score translations with chrF++, COMET, … or your own function",
    "compare": "test whether systems are equivalent",
    "calibrate": "find the cheapest stopping rule that keeps a guarantee",
    "lab": "study stopping rules on your own model and data",
    "models": "list models and metrics; download models for other languages",
}
"""Command → help, in the order of the help. Module ``quitmt.cli.NAME`` has its ``add_parser``."""

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
    """Commands with a line of help each; only the command that runs gets its parser from its module."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        name = values[0]
        parser_of_command = self.load(name)
        super().__call__(parser, namespace, values, option_string)
        if unrecognized := getattr(namespace, argparse._UNRECOGNIZED_ARGS_ATTR, None):
            see = f"see {parser_of_command.prog} --help"
            hint = self._instead(unrecognized[0].partition("=")[0], name, parser)
            parser_of_command.refuse(
                f"unrecognized arguments: {' '.join(unrecognized)}", f"{hint}; {see}" if hint else see
            )

    def load(self, name: str) -> _Parser:
        del self._name_parser_map[name]
        import_module(f"quitmt.cli.{name}").add_parser(self)
        command_parser: _Parser = self._name_parser_map[name]
        return command_parser

    def _instead(self, option: str, name: str, top: argparse.ArgumentParser) -> str | None:
        """A hint for an unknown option: it goes before the command, belongs to another command, or is misspelled."""
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
        epilog="quitmt COMMAND --help explains a command, with examples.",
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
            stream.reconfigure(errors="replace")  # the locale may lack a character
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        parser().print_help(sys.stderr)
        return BAD
    args = parser().parse_args(words)
    args.words = words  # to print the command that resumes a run
    logging.basicConfig(level=logging.WARNING, format="quitmt: %(message)s")
    logging.getLogger("quitmt").setLevel(logging.DEBUG if args.debug else logging.NOTSET)
    hush(args)
    with speaking(Flags()):
        return act(args)


class Flags(Speaker):
    """Names settings by their flags."""

    def setting(self, field: str, example: str | None) -> str:
        from quitmt.cli.options import as_flag  # slow, because it knows the flags of all engines

        return as_flag(field, example)


def hush(args: argparse.Namespace) -> None:
    """Turn off the progress bars of libraries that load models where ours are off too; they are imported later and read
    this then."""
    if getattr(args, "quiet", False) or sys.stderr is None or not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def act(args: argparse.Namespace) -> int:
    try:
        code = int(args.act(args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except ClosedPipe as error:
        say(str(error))
        # Python flushes standard output again at exit, which would fail.
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


def say(message: str) -> None:
    if sys.stderr is not None:
        print(f"quitmt: {visible(message)}", file=sys.stderr)


def visible(message: str) -> str:
    """Put a message on one line, and escape all control characters, which a terminal would obey."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], message)
