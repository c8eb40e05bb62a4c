"""The part of Ray that a job uses, in this process: one worker does one part after another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Answer:
    """The result of an actor call, awaited by workers and fetched by the driver."""

    value: Any

    def __await__(self) -> Iterator[Any]:
        yield from ()
        return self.value


class Actor:
    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *words: Answer(getattr(self.inner, name)(*words)))


class LocalRay:
    def __init__(self, *machines: Mapping[str, float]) -> None:
        self.machines = machines or ({"CPU": 8.0},)
        self.started: dict[str, Any] = {}
        """The settings of the last start."""
        self.strategy: dict[str, Any] = {}
        """The worker pool that the last job requested."""
        self.data = SimpleNamespace(
            DataContext=SimpleNamespace(get_current=SimpleNamespace),
            ActorPoolStrategy=lambda **strategy: strategy,
            from_items=lambda rows, **_: SimpleNamespace(
                map_batches=lambda kind, **settings: SimpleNamespace(iter_rows=lambda: self.work(rows, kind, settings))
            ),
        )

    def init(self, **settings: Any) -> None:
        self.started = settings

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": machine} for machine in self.machines]

    def shutdown(self) -> None:
        """There is nothing to stop."""

    def remote(self, **_: Any) -> Any:
        return lambda kind: SimpleNamespace(remote=lambda: Actor(kind()))

    def get(self, answer: Answer, timeout: float) -> Any:
        return answer.value

    def work(self, rows: list[dict[str, Any]], kind: Any, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        self.strategy = settings["compute"]

        async def all_parts() -> list[dict[str, list[Any]]]:
            worker = kind(**settings["fn_constructor_kwargs"])
            return [await worker({name: [value] for name, value in row.items()}) for row in rows]

        for done in asyncio.run(all_parts()):
            yield {name: values[0] for name, values in done.items()}
