"""TRL trains on what ``quitmt export`` writes, and by our rewards: real steps on a tiny chat model with random weights.

Datasets, polars and DuckDB read the Parquet files with the documented types.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import duckdb
import polars
import pyarrow.parquet
import pytest
import torch
import transformers

import quitmt
import trl
from tests.models.tiny import make_chat

try:
    from trl import KTOConfig, KTOTrainer
except ImportError:  # where TRL 1.x keeps it for now
    from trl.experimental.kto import KTOConfig, KTOTrainer

SOURCES = ["The weather is nice today.", "No.", "The old house was sold.", "We do not know when.", "My brother cooks."]
CANDIDATES = [
    ["O tempo está bom hoje.", "O tempo está bom.", "O tempo estava mau ontem.", "Tempo."],
    ["Não.", "Nunca.", "Não!", "Sim."],
    ["A casa velha foi vendida.", "A velha casa foi vendida.", "A casa foi comprada.", "Casa."],
    ["Não sabemos quando.", "Não sabemos.", "Sabemos quando.", "Quando."],
    ["O meu irmão cozinha.", "Meu irmão cozinha.", "A minha irmã cozinha.", "Irmão."],
]
STEPS = 2


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_chat(tmp_path_factory.mktemp("models") / "chat"))


@pytest.fixture(scope="session")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pools as ``--keep-pools`` writes them, with the scores of the run."""
    folder = tmp_path_factory.mktemp("pools")
    written = [
        json.dumps({"id": str(number), "source": source, "candidates": texts})
        for number, (source, texts) in enumerate(zip(SOURCES, CANDIDATES, strict=True), start=1)
    ]
    (folder / "plain.jsonl").write_text("\n".join(written) + "\n")
    run("rerank", "plain.jsonl", "--stop", "full", "-o", "chosen.txt", "--keep-pools", "pools.jsonl", folder=folder)
    return folder / "pools.jsonl"


def run(*words: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "quitmt", *words, "-q"], cwd=folder, check=True)


def exported(pools: Path, kind: str, suffix: str, *, chat: bool) -> str:
    name = f"{kind}{'-chat' if chat else ''}.{suffix}"
    output = pools.parent / name
    if not output.exists():
        form = ("--chat", "--prompt", "instruct", "--src", "en", "--tgt", "pt") if chat else ()
        run("export", "pools.jsonl", "--as", kind, "-o", name, "--filters", "none", *form, folder=pools.parent)
    return str(output)


def loaded(path: str, cache: Path) -> datasets.Dataset:
    kind = "parquet" if path.endswith(".parquet") else "json"
    return datasets.load_dataset(kind, data_files=path, split="train", cache_dir=str(cache))


def settings(folder: Path, kind: Any, **more: Any) -> Any:
    return kind(
        output_dir=str(folder), max_steps=STEPS, per_device_train_batch_size=2, learning_rate=1e-2, report_to=[],
        save_strategy="no", logging_steps=1, use_cpu=True, bf16=False, disable_tqdm=True, **more,
    )  # fmt: skip


def parts(model: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), tokenizer


def check_trained(trainer: Any, before: dict[str, torch.Tensor]) -> None:
    """Two steps were made, the loss is a number, and weights moved."""
    assert trainer.state.global_step == STEPS
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == STEPS and all(loss == loss for loss in losses)
    after = trainer.model.state_dict()
    assert any(not torch.equal(value, after[name]) for name, value in before.items())


TRAINERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sft": (trl.SFTTrainer, trl.SFTConfig, {"max_length": 128}),
    "dpo": (trl.DPOTrainer, trl.DPOConfig, {"max_length": 128}),
    "kto": (KTOTrainer, KTOConfig, {"max_length": 128}),
}


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@pytest.mark.parametrize("kind", TRAINERS)
def test_trl_trains_on_an_exported_file(
    kind: str, suffix: str, chat: bool, model: str, pools: Path, tmp_path: Path
) -> None:
    trainer_class, config_class, more = TRAINERS[kind]
    data = loaded(exported(pools, kind, suffix, chat=chat), tmp_path / "cache")
    assert len(data) >= len(SOURCES)
    network, tokenizer = parts(model)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    trainer = trainer_class(
        model=network, args=settings(tmp_path, config_class, **more), train_dataset=data, processing_class=tokenizer
    )
    trainer.train()
    check_trained(trainer, before)


@pytest.mark.parametrize("chat", [False, True], ids=["plain", "chat"])
def test_grpo_makes_a_step_by_our_rewards(
    chat: bool, model: str, pools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = loaded(exported(pools, "sft", "parquet", chat=chat), tmp_path / "cache")
    network, tokenizer = parts(model)
    seen: list[tuple[Any, Any, list[float]]] = []
    own = quitmt.reward("qe:likelihood", languages=("en", "pt"))

    def watched(prompts: Any, completions: Any, **columns: Any) -> list[float]:
        found = own(prompts=prompts, completions=completions, **columns)
        seen.append((columns["source"], completions, found))
        return found

    trainer = trl.GRPOTrainer(
        model=network,
        reward_funcs=[watched, quitmt.group_reward("mbr:chrf", size=2), own],
        args=settings(tmp_path, trl.GRPOConfig, num_generations=2, max_completion_length=8),
        train_dataset=data.select_columns(["prompt", "source"]),
        processing_class=tokenizer,
    )
    trainer.train()
    assert trainer.state.global_step == STEPS and seen
    for sources, completions, rewards in seen:
        texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
        assert set(sources) <= set(SOURCES)
        for source, text, reward in zip(sources, texts, rewards, strict=True):
            outcome = quitmt.rerank_pool([text], source, reranker="qe:likelihood", rule="full")
            assert outcome.score == pytest.approx(reward, rel=1e-5)
    logged = {name for entry in trainer.state.log_history for name in entry}
    assert {"rewards/mbr:chrf/mean", "rewards/qe:likelihood/mean"} <= logged


@pytest.mark.parametrize("kind", ["sft", "parallel", "dpo", "kto", "ranked", "reward"])
def test_everybody_reads_the_same_rows_of_a_parquet_file(kind: str, pools: Path, tmp_path: Path) -> None:
    path = exported(pools, kind, "parquet", chat=False)
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert rows and polars.read_parquet(path).to_dicts() == rows
    assert [dict(row) for row in loaded(path, tmp_path / "cache")] == rows
    relation = duckdb.sql(f"select * from read_parquet('{path}')")
    names = [column[0] for column in relation.description]
    assert [dict(zip(names, row, strict=True)) for row in relation.fetchall()] == rows


TEXT, NUMBER, COUNT, TRUTH = "string", "double", "int64", "bool"
ABOUT = {"id": TEXT, "source": TEXT, "size": COUNT, "stop": TEXT, "signature": TEXT}
TYPES = {
    "sft": {"prompt": TEXT, "completion": TEXT, "score": NUMBER},
    "parallel": {"target": TEXT, "score": NUMBER},
    "dpo": {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}
    | {"score_chosen": NUMBER, "score_rejected": NUMBER, "margin": NUMBER},
    "kto": {"prompt": TEXT, "completion": TEXT, "label": TRUTH, "score": NUMBER},
    "ranked": {"prompt": TEXT, "completions": [TEXT], "scores": [NUMBER], "counts": [COUNT]}
    | {"log_probabilities": [NUMBER]},
    "reward": {"prompt": TEXT, "completion": TEXT, "score": NUMBER, "count": COUNT, "log_probability": NUMBER},
}
"""What docs/training-data.md says."""
IN_POLARS = {TEXT: polars.String, NUMBER: polars.Float64, COUNT: polars.Int64, TRUTH: polars.Boolean}
IN_DUCKDB = {TEXT: "VARCHAR", NUMBER: "DOUBLE", COUNT: "BIGINT", TRUTH: "BOOLEAN"}
IN_DATASETS = {TEXT: "string", NUMBER: "float64", COUNT: "int64", TRUTH: "bool"}


def described(path: str) -> dict[str, str]:
    return dict(duckdb.sql(f"select column_name, column_type from (describe select * from '{path}')").fetchall())


@pytest.mark.parametrize("kind", TYPES)
def test_everybody_sees_the_documented_types(kind: str, pools: Path, tmp_path: Path) -> None:
    path = exported(pools, kind, "parquet", chat=False)
    own, in_polars, in_duckdb = pyarrow.parquet.read_schema(path), polars.read_parquet_schema(path), described(path)
    in_datasets = loaded(path, tmp_path / "cache").features
    wanted = TYPES[kind] | ABOUT
    assert set(own.names) == set(in_polars) == set(in_duckdb) == set(in_datasets) == set(wanted)
    for name, told in wanted.items():
        one = told[0] if isinstance(told, list) else told
        many = isinstance(told, list)
        assert str(own.field(name).type) == (f"list<element: {one}>" if many else one)
        assert in_polars[name] == (polars.List(IN_POLARS[one]) if many else IN_POLARS[one])
        assert in_duckdb[name] == (f"{IN_DUCKDB[one]}[]" if many else IN_DUCKDB[one])
        value = datasets.Value(IN_DATASETS[one])
        assert in_datasets[name] == (datasets.List(value) if many else value)


def test_messages_are_lists_of_structures(pools: Path, tmp_path: Path) -> None:
    path = exported(pools, "dpo", "parquet", chat=True)
    [first, *_] = loaded(path, tmp_path / "cache")
    assert first["prompt"][0]["role"] == "user" and first["chosen"][0]["role"] == "assistant"
    schema = polars.read_parquet_schema(path)
    message = polars.List(polars.Struct({"role": polars.String, "content": polars.String}))
    assert schema["prompt"] == schema["chosen"] == schema["rejected"] == message
    assert described(path)["chosen"] == 'STRUCT("role" VARCHAR, "content" VARCHAR)[]'
