"""Best of N without any language: short round trips through random cities, from random greedy tours.

    python examples/tours.py
    python examples/tours.py --problems 10 --cities 25 -n 128

A prompt is a list of cities, a candidate a tour as text, and the reward how near its length comes to a lower bound: 1
would be a tour that nobody can beat. Each rule sees the same candidates and decides how many of them it wants.
"""

from __future__ import annotations

import argparse
import random
from functools import cache
from math import dist

import quitmt

City = tuple[float, float]
RULES = (
    "full",
    "fixed:128",
    "fixed:64",
    "fixed:32",
    "quit",
    "quit, w=4",
    "headroom:top=1,minimum=16,looks=2,share=0.002",
    "headroom:top=1,minimum=16,looks=2,share=0.005",
)


def make_prompt(cities: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(f"{rng.random():.4f},{rng.random():.4f}" for _ in range(cities))


@cache
def cities_of(prompt: str) -> tuple[City, ...]:
    pairs = [city.split(",") for city in prompt.split()]
    return tuple((float(x), float(y)) for x, y in pairs)


@cache
def candidate(prompt: str, index: int) -> str:
    """From a random city on, mostly to the nearest one that is left, now and then to the second or third."""
    cities, rng = cities_of(prompt), random.Random(f"{index} {prompt}")
    left = set(range(len(cities)))
    tour = [rng.randrange(len(cities))]
    left.discard(tour[0])
    while left:
        here = cities[tour[-1]]
        near = sorted(left, key=lambda city: dist(here, cities[city]))[:3]
        tour.append(rng.choices(near, (90, 8, 2)[: len(near)])[0])
        left.discard(tour[-1])
    return " ".join(map(str, tour))


def sample(prompt: str, start: int, stop: int) -> list[str]:
    return [candidate(prompt, index) for index in range(start, stop)]


@cache
def bound(prompt: str) -> float:
    """No tour is shorter: each city has two roads, at best those to its nearest neighbours, and each road two ends."""
    cities = cities_of(prompt)
    return sum(sum(sorted(dist(here, there) for there in cities)[1:3]) for here in cities) / 2


@cache
def reward(prompt: str, tour: str) -> float:
    cities = [cities_of(prompt)[int(city)] for city in tour.split()]
    return bound(prompt) / sum(dist(*road) for road in zip(cities, cities[1:] + cities[:1], strict=True))


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Best of N on round trips: what each stopping rule gives and costs.")
    parser.add_argument("--problems", type=int, default=20, help="lists of cities (20)")
    parser.add_argument("--cities", type=int, default=30, help="in each (30)")
    parser.add_argument("-n", type=int, default=512, help="tours at most for each (512)")
    args = parser.parse_args(words)
    prompts = [make_prompt(args.cities, seed) for seed in range(args.problems)]
    print(f"{args.problems} round trips through {args.cities} cities, {args.n} tours at most\n")
    print(f"{'rule':<22}{'reward':>8}{'of full':>9}{'tours':>8}{'fewest':>8}{'most':>6}")
    full = 0.0
    for name in RULES:
        rule, _, window = name.partition(", w=")
        if rule.startswith("fixed:") and int(rule.removeprefix("fixed:")) > args.n:
            continue
        outcomes = quitmt.best_of(prompts, sample, reward, rule=rule, w=int(window or 8), n=args.n)
        score = sum(outcome.score or 0.0 for outcome in outcomes) / len(outcomes)
        full = full or score
        sizes = [outcome.size for outcome in outcomes]
        mean = sum(sizes) / len(sizes)
        print(f"{name:<22}{score:>8.4f}{score / full:>9.2%}{mean:>8.1f}{min(sizes):>8}{max(sizes):>6}")


if __name__ == "__main__":
    main()
