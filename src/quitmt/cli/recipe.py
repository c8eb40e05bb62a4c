"""``quitmt recipe``: what a run would be made of, with every default, ready to save."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from quitmt.cli import options
from quitmt.errors import MissingExtra
from quitmt.recipe import files
from quitmt.recipe.check import check
from quitmt.recipe.effective import effective

DESCRIPTION = """\
Print the recipe that flags and files add up to: model, reranker, rule and limits, with every default filled in.
Nothing is loaded, and errors are found. Save the output, and translate, rerank and calibrate take it with --recipe."""

EXAMPLES = """\
examples:
  quitmt recipe > my.toml                                   # the defaults, each explained
  quitmt recipe --rerank qe:likelihood -w 4 > qe.toml
  quitmt translate news.en --recipe qe.toml -o news.pt
  quitmt recipe --recipe qe.toml --max-cost 100 --json      # flags win over the file"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "recipe",
        description=DESCRIPTION,
        epilog=options.models() + options.names() + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_recipe(parser, "model", "rerank", "stop", "run")
    parser.add_argument("--json", action="store_true", help="as JSON in place of TOML")
    parser.add_argument("--bare", action="store_true", help="only what is set, without comments")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    recipe = options.recipe_of(args)
    check(recipe, installed=False)
    try:
        check(recipe)
    except MissingExtra as error:  # it may be meant for another machine
        print(f"quitmt: here, {error}", file=sys.stderr)
    whole = effective(recipe)
    if args.json:
        print(json.dumps(whole.to_fields(), indent=1, ensure_ascii=False))
    else:
        print(files.to_toml(whole, comments=not args.bare), end="")
    return 0
