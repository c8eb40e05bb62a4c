"""``quitmt serve``: translations over HTTP."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from quitmt.errors import MissingExtra

DESCRIPTION = """\
Serve translations over HTTP, with early stopping and a deadline for each request. It speaks the APIs of LibreTranslate,
DeepL, OpenAI and NeMo Curator, and one of its own (/openapi.json); the page at / shows what happens. Without a recipe
it serves the embedded models, English to Portuguese and back."""

EXAMPLES = """\
examples:
  quitmt serve                                       # then open http://127.0.0.1:8080
  quitmt serve --recipe en-de.toml --recipe de-en.toml --port 8000
  quitmt serve --host 0.0.0.0 --keys keys.txt        # for others: with keys
  curl http://127.0.0.1:8080/translate -d q='Good morning.' -d source=en -d target=pt"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "serve", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recipe", dest="recipes", action="append", default=[], metavar="FILE",
        help="a language pair, as quitmt recipe prints it; may be repeated (the embedded models)",
    )  # fmt: skip
    parser.add_argument(
        "--allow-functions", action="store_true", help="run the functions (MODULE:NAME) that recipes and profiles name"
    )
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8080, metavar="N", help="(8080; 0 takes a free one)")
    load = parser.add_argument_group("time and load")
    load.add_argument(
        "--deadline", type=float, default=8.0, metavar="SECONDS",
        help="of a request; then the best so far is the answer, and a request may only ask for less (8; 0 is none)",
    )  # fmt: skip
    load.add_argument("--waiting", type=int, default=256, metavar="N", help="sentences that may wait, a pair (256)")
    load.add_argument(
        "--text-characters", type=int, default=50_000, metavar="N", help="that a request may have (50000)"
    )
    load.add_argument(
        "--connections", type=int, default=512, metavar="N",
        help="maximum open connections; beyond it, idle ones are closed [default: 512]",
    )  # fmt: skip
    load.add_argument(
        "--drain", type=float, default=30.0, metavar="SECONDS", help="for requests under way when it is to stop (30)"
    )
    access = parser.add_argument_group("who may use it")
    access.add_argument(
        "--keys", metavar="FILE", help="a key a line; without it, those in QUITMT_KEYS; with neither, everybody may"
    )
    access.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN",
        help="pages of this origin may use it from a browser; may be repeated; * is all (none)",
    )  # fmt: skip
    parser.add_argument("-q", "--quiet", action="store_true", help="no line of log a request")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    try:
        from quitmt.serve import keys, running
        from quitmt.serve.limits import Limits
    except ImportError as error:
        raise MissingExtra(f"serving needs {error.name}", hint="pip install 'quitmt[serve]'") from None
    limits = Limits(
        args.deadline or None,
        waiting=args.waiting,
        text_characters=args.text_characters,
        connections=args.connections,
    )
    settings = running.ServeSettings(
        tuple(args.recipes),
        args.host,
        args.port,
        limits,
        keys.load(args.keys),
        tuple(args.cors),
        args.drain,
        args.quiet,
        args.allow_functions,
    )
    return running.run(settings, lambda message: print(f"quitmt: {message}", file=sys.stderr, flush=True))
