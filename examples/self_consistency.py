"""Self-consistency with early stopping: sample solutions of word problems, and take the answer that most of them give.

    python examples/self_consistency.py                       # a simulated solver: no model, no download
    python examples/self_consistency.py hf:FOLDER --max-tokens 96
    python examples/self_consistency.py openai:MODEL --base-url http://localhost:8000/v1

Each problem is sampled once, N times; then votes are counted on those samples with different stopping rules, as if each
had been run on its own. To use it, not to compare, one call does it:

    quitmt.best_of(prompts, "openai:MODEL", "mbr:vote", rule="consistency", k=4, n=64, options={"base_url": …})
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import quitmt
from quitmt.metrics.final_answer import final_answer

TASK = 'Solve the problem in one or two short steps. End with "The answer is" and the number.'
PROBLEMS = [
    ("A shelf holds 6 red books and 7 blue books. How many books does it hold?", 13),
    ("Mara had 15 stamps and gave 4 to her brother. How many stamps does she have now?", 11),
    ("A baker puts 5 rolls into each bag and fills 8 bags. How many rolls are in the bags?", 40),
    ("Three friends share 24 cherries equally. How many cherries does each get?", 8),
    ("A train leaves with 30 people. 12 get off and 5 get on. How many people are on the train?", 23),
    ("Tom is 9 years old. His sister is twice as old. How old is his sister?", 18),
    ("A pencil costs 2 dollars and a notebook costs 3 dollars. How much do 4 pencils and 2 notebooks cost?", 14),
    ("A tank has 50 litres of water. It loses 4 litres a day for 6 days. How many litres are left?", 26),
    ("There are 7 days in a week. How many days are in 5 weeks and 2 days?", 37),
    ("Lena reads 12 pages on Monday and half as many on Tuesday. How many pages does she read in all?", 18),
    ("A farmer has 3 rows of 9 trees and cuts down 8 trees. How many trees are left?", 19),
    ("A rope of 45 metres is cut into pieces of 5 metres. How many pieces are there?", 9),
]
ANSWERS = {f"{TASK}\n\n{question}": answer for question, answer in PROBLEMS}
WAYS = ("fixed:4", "fixed:16", "consistency", "consistency:doubt=0.1", "loss", "full")


def simulated(prompt: str, start: int, stop: int) -> list[str]:
    """Stands in for a model: right in 40 to 90 of 100 cases, by the problem; wrong answers lie around the right one."""
    right, skill = ANSWERS[prompt], random.Random(prompt).uniform(0.4, 0.9)
    found = []
    for index in range(start, stop):
        rng = random.Random(f"{index} {prompt}")
        wrong = right + rng.choice([-10, -5, -3, -2, -1, 1, 2, 3, 5, 10])
        found.append(f"Solution {index}. The answer is {right if rng.random() < skill else wrong}.")
    return found


def share_right(prompt: str, texts: list[str]) -> float:
    return sum(final_answer(text) == str(ANSWERS[prompt]) for text in texts) / len(texts)


def translator(args: argparse.Namespace) -> quitmt.Translator:
    settings: dict[str, Any] = {"reranker": "mbr:vote", "rule": "full", "n": args.n}
    if args.model is None:
        return quitmt.Translator(simulated, **settings)
    options = {"prompt": "plain", "base_url": args.base_url, "max_tokens": args.max_tokens}
    return quitmt.Translator(args.model, temperature=args.temperature, options=options, **settings)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Self-consistency on word problems, with early stopping.")
    parser.add_argument("model", nargs="?", help="openai:MODEL, hf:FOLDER or vllm:MODEL (a simulated solver)")
    parser.add_argument("--base-url", help="openai: where the server is")
    parser.add_argument("--temperature", type=float, default=0.7, help="of sampling (0.7)")
    parser.add_argument("--max-tokens", type=int, default=128, help="of a solution (128)")
    parser.add_argument("-n", type=int, default=64, help="solutions at most for each problem (64)")
    parser.add_argument("--problems", type=int, default=len(PROBLEMS), help=f"only the first so many ({len(PROBLEMS)})")
    args = parser.parse_args(words)
    print(f"model: {args.model or 'none, a simulated solver (name one: hf:FOLDER, openai:MODEL)'}")
    sampler, pools = translator(args), {}
    for number, prompt in enumerate(list(ANSWERS)[: args.problems], start=1):
        moments = sampler.watch(quitmt.Segment(str(number), prompt))
        pools[prompt] = [candidate.text for moment in moments for candidate in moment.new]
        share = share_right(prompt, pools[prompt])
        print(f"{number:>3}. {share:>4.0%} say {ANSWERS[prompt]:<4}{prompt.splitlines()[-1]}", flush=True)

    print(f"\n{'':<26}{'right':>9}{'solutions':>12}")
    single = sum(share_right(prompt, pool) for prompt, pool in pools.items()) / len(pools)
    print(f"{'one solution, on average':<26}{single:>9.1%}{1:>12.1f}")
    for way in WAYS:
        if way.startswith("fixed:") and int(way.removeprefix("fixed:")) > args.n:
            continue
        settings: dict[str, Any] = {"reranker": "mbr:vote", "rule": way, "k": 4, "n": args.n}
        outcomes = [quitmt.rerank_pool(pool, prompt, **settings) for prompt, pool in pools.items()]
        right = sum(share_right(outcome.source, [outcome.text]) for outcome in outcomes) / len(outcomes)
        size = sum(outcome.size for outcome in outcomes) / len(outcomes)
        print(f"{f'vote, {way}':<26}{right:>9.1%}{size:>12.1f}")


if __name__ == "__main__":
    main()
