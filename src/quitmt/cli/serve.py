"""``quitmt serve``: serves translations over HTTP."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from quitmt.errors import MissingExtra

DESCRIPTION = """\
Serve translations over HTTP, with early stopping and a deadline for each request. Clients can use the native API or
those of LibreTranslate, DeepL, OpenAI and NeMo Curator (/openapi.json). Open / in a browser for a web page. Without a
recipe it serves the embedded models, English to Portuguese and back."""

EXAMPLES = """\
examples:
  quitmt serve                                       # then open http://127.0.0.1:8080
  quitmt serve --recipe en-de.toml --recipe de-en.toml --port 8000
  quitmt serve --host 0.0.0.0 --keys keys.txt        # public, with keys
  curl http://127.0.0.1:8080/translate -d q='Good morning.' -d source=en -d target=pt"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "serve", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--recipe", dest="recipes", action="append", default=[], metavar="FILE",
        help="recipe of a language pair; may be repeated [default: the embedded models]",
    )  # fmt: skip
    parser.add_argument("--allow-functions", action="store_true", help="run functions (MODULE:NAME) that recipes name")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on [default: 127.0.0.1]")
    parser.add_argument("--port", type=int, default=8080, metavar="N", help="port; 0 means any [default: 8080]")
    load = parser.add_argument_group("time and load")
    load.add_argument(
        "--deadline", type=float, default=8.0, metavar="SECONDS",
        help="maximum time per request, after which the best translation so far is returned; 0 means none [default: 8]",
    )  # fmt: skip
    load.add_argument(
        "--waiting", type=int, default=256, metavar="N",
        help="maximum queued sentences per language pair [default: 256]",
    )  # fmt: skip
    load.add_argument(
        "--text-characters", type=int, default=50_000, metavar="N",
        help="maximum characters per request [default: 50000]",
    )  # fmt: skip
    load.add_argument(
        "--connections", type=int, default=512, metavar="N",
        help="maximum open connections; beyond it, idle ones are closed [default: 512]",
    )  # fmt: skip
    load.add_argument(
        "--drain", type=float, default=30.0, metavar="SECONDS",
        help="time for requests in progress to finish at shutdown [default: 30]",
    )  # fmt: skip
    access = parser.add_argument_group("access")
    access.add_argument(
        "--keys", metavar="FILE",
        help="file with one key per line [default: the keys in QUITMT_KEYS, or open to everyone]",
    )  # fmt: skip
    access.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN",
        help="origin whose pages may use the server, or *; may be repeated [default: none]",
    )  # fmt: skip
    parser.add_argument("-q", "--quiet", action="store_true", help="don't log requests")
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
