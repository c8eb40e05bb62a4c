"""``quitmt recipe``: the plan of a run, with every default and the origin of every value, ready to save as a recipe."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from quitmt.cli import options
from quitmt.errors import MissingExtra
from quitmt.plan import files, resolve
from quitmt.plan.recipe import ORIGINS

DESCRIPTION = """\
Print the plan that flags and files add up to: model, reranker, rule and limits, with every default filled in, and where
each value came from. Mistakes are reported, and no model is loaded. Save the output, and translate, rerank and
calibrate take it with --recipe."""

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
    parser.add_argument("--json", action="store_true", help="print JSON instead of TOML")
    parser.add_argument("--bare", action="store_true", help="print only what is set, without comments")
    parser.set_defaults(act=act)


def act(args: argparse.Namespace) -> int:
    plan = resolve(options.recipe_of(args), installed=False)
    try:
        plan.require()
    except MissingExtra as error:  # the recipe may be for another machine
        print(f"quitmt: here, {error}", file=sys.stderr)
    if args.json:
        fields: dict[str, Any] = plan.recipe.to_fields()
        if not args.bare:
            fields[ORIGINS] = {name: str(origin) for name, origin in plan.recipe.origins.items()}
        print(json.dumps(fields, indent=1, ensure_ascii=False))
    else:
        print(files.to_toml(plan.recipe, comments=not args.bare), end="")
    return 0
