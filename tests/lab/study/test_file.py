"""Study files: what the template says, and what is refused, each in one sentence."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from quitmt.errors import InputError
from quitmt.evaluate.equivalence import MOST_RESAMPLES
from quitmt.lab.study import Study, load, parse, template
from quitmt.lab.study.file import SECTIONS, functions_in
from quitmt.lab.study.settings import BaselineSettings, LiveSettings, SamplingSettings, TestSetSettings
from quitmt.plan import Recipe, resolve

FEW_LIVE = LiveSettings(limit=20)
"""Live runs take long: the template says so, and asks for few."""
DECODED = BaselineSettings("greedy,beam:4")
"""A new study has baselines; one of an earlier version is as it was."""
DOCS = Path(__file__).parents[3] / "docs" / "lab.md"
TEST_SET = '[test_set]\ntsv = "a.tsv"\n'


def uncommented(text: str, *, without: tuple[str, ...]) -> str:
    """The template with its settings in force, but for some fields."""
    lines = [re.sub(r"^# (?=\w+ = |\[)", "", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if line.partition(" ")[0] not in without)


def test_the_template_is_a_study_of_defaults() -> None:
    found = parse(tomllib.loads(template("news.tsv")), "template")
    assert found == Study(TestSetSettings(tsv="news.tsv", limit=200), live=FEW_LIVE, baselines=DECODED)


def test_what_is_commented_out_is_the_default() -> None:
    """But for what has none: another test set, pools, languages, cut-offs, hardware, options and the paper."""
    others = "sources references name jsonl pools source_language target_language top_k top_p epsilon in_flight recipe"
    more = "options device dtype batch_tokens dataset min_p support samplings"
    text = uncommented(template(), without=(*others.split(), *more.split()))
    text = re.sub(r"\[\[samplings\]\].*?(?=\[paper\])", "", text.replace('model = "Qwen3"', ""), flags=re.DOTALL)
    assert parse(tomllib.loads(text), "template") == Study(
        TestSetSettings(tsv="NEWS.tsv", limit=200), live=FEW_LIVE, baselines=DECODED
    )


def test_the_template_names_every_field() -> None:
    text = template()
    blocks = dict(re.findall(r"^(?:# )?\[(\w+)\](.*?)(?=^(?:# )?\[|\Z)", text, re.MULTILINE | re.DOTALL))
    assert blocks.keys() == SECTIONS.keys()
    for section, kind in SECTIONS.items():
        named = set(re.findall(r"^(?:# )?(\w+) = ", blocks[section], re.MULTILINE))
        assert named == {one.name for one in fields(kind)}, section
    (sampling,) = re.findall(r"^# \[\[samplings\]\](.*?)^# \[paper\]", text, re.MULTILINE | re.DOTALL)
    assert all(re.search(rf"\b{one.name}\b", sampling) for one in fields(SamplingSettings))


@pytest.mark.parametrize("name", ['a "b" \\ c.tsv', "néws.tsv", "a # b.tsv", "NEWS.tsv"])
def test_the_template_takes_any_file_name(name: str) -> None:
    found = parse(tomllib.loads(template(name, limit=7, output="x/é")), "template")
    assert found == Study(TestSetSettings(tsv=name, limit=7), output="x/é", live=FEW_LIVE, baselines=DECODED)


def test_a_file_with_every_kind_of_value(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'title = "T"\noutput = "out"\n[test_set]\nsources = "a.en"\nreferences = ["a.pt", "b.pt"]\n'
        '[model]\nbudget = 64\ntemperature = 1\noptions = { base_url = "http://x" }\n'
        "[rules]\nalphas = [0, 1e-2]\n",
        "utf-8",
    )
    found = load(str(path))
    assert (found.title, found.output, found.test_set.references) == ("T", "out", ("a.pt", "b.pt"))
    assert (found.model.budget, found.model.temperature) == (64, 1.0)
    assert isinstance(found.model.temperature, float)
    assert found.model.options == {"base_url": "http://x"}
    assert found.rules.alphas == (0.0, 0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "{path} is not TOML: Invalid value (at end of document)"),
        ("", "{path} names no test set (a section [test_set] with tsv, sources, name or jsonl)"),
        ("[test_set]", "{path}, [test_set]: exactly one of tsv, sources, name and jsonl must be there"),
        (TEST_SET + 'name = "wmt24:en-de"', "exactly one of tsv, sources, name and jsonl must be there"),
        (TEST_SET + "[rule]", "{path}: unknown field of a study 'rule' (did you mean 'rules'?)"),
        (TEST_SET + "[rules]\nwindow = [2]", "{path}, [rules], window: unknown field of [rules] 'window' (did you"),
        ("title = 3\n" + TEST_SET, "{path}, title must be a text, not 3"),
        ("rules = 3\n" + TEST_SET, "{path}: [rules] must be a section"),
        (TEST_SET + "[rules]\nk = 8.5", "{path}, [rules], k must be a whole number, not 8.5"),
        (TEST_SET + "[rules]\nwindows = 8", "{path}, [rules], windows must be a list, not 8"),
        (TEST_SET + '[rules]\nwindows = ["8"]', "{path}, [rules], windows must be a whole number, not '8'"),
        (TEST_SET + "[rules]\nk = 0", "{path}, [rules], k must be 1 or more, not 0"),
        (TEST_SET + "[rules]\nwindows = [4, 1]", "{path}, [rules], windows must be 2 or more, not 1"),
        (TEST_SET + "[rules]\nalpha = nan", "{path}, [rules], alpha must be 0 or more, not nan"),
        (TEST_SET + "[rerank]\nrerankers = []", "{path}, [rerank], rerankers must not be empty"),
        (TEST_SET + "[rules]\nwindows = [4, 4]", "{path}, [rules], windows has 4 twice"),
        (TEST_SET + "limit = " + "9" * 5000, "{path} is not TOML: Exceeds the limit"),
        (
            TEST_SET + "[rules]\nwindows = " + "[" * 5000 + "]" * 5000,
            "{path} is not TOML: maximum recursion",
        ),
        (TEST_SET + "[model.options" + ".a" * 5000 + "]", "{path}, [model], options.a is nested too deeply"),
        (TEST_SET + "[model]\nbudget = 1_000_001", "[model], budget must be 1,000,000 or less, not 1,000,001"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as raised:
        load(str(path))
    assert message.format(path=path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "values"),
    [
        ("[test_set], limit", [0]),
        ("[model], budget", [0, 1_000_001]),
        ("[rules], windows", [[], [1], [4, 1_000_001]]),
        ("[rules], steps", [[], [0], [1_000_001], [2, 2]]),
        ("[rules], costs", [[0], [8, 8]]),
        ("[rules], splits", [0, 100_001]),
        ("[rules], beyond", [["loss", "loss"]]),
        ("[rerank], accelerated", [["prune", "prune"]]),
        ("[evaluate], resamples", [0, MOST_RESAMPLES + 1]),
        ("[evaluate], metrics", [["chrf", "chrf"]]),
        ("[live], windows", [[1], [1_000_001]]),
        ("[live], rules", [["loss", "loss"]]),
    ],
)
def test_numbers_out_of_range_and_lists_with_something_twice_are_refused(place: str, values: list[object]) -> None:
    section, field = re.findall(r"\w+", place)
    for value in values:
        settings = {"test_set": {"tsv": "a.tsv"}}
        settings[section] = {**settings.get(section, {}), field: value}  # type: ignore[dict-item]
        with pytest.raises(InputError, match=re.escape(f"x, {place} ")):
            parse(settings, "x")


@pytest.mark.parametrize(
    ("section", "field"),
    [("rules", "beyond"), ("rules", "costs"), ("live", "rules"), ("evaluate", "metrics"), ("rerank", "accelerated")],
)
def test_lists_that_may_be_empty(section: str, field: str) -> None:
    study = parse({"test_set": {"tsv": "a"}, section: {field: []}}, "x")
    assert getattr(getattr(study, section), field) == ()


def test_samplings_are_studies_of_their_own() -> None:
    text = TEST_SET + (
        '[model]\ntemperature = 1.0\n[rerank]\nrerankers = ["mbr:chrf"]\n'
        '[[samplings]]\nanchors = "greedy, beam:4"\n'
        '[[samplings]]\nname = "cold"\ntemperature = 0.7\ntop_p = 0.9\n'
        '[[samplings]]\ntop_p = 0.9\nseed = 3\nsupport = "others"\n'
    )
    plain, anchored, cold, nucleus = parse(tomllib.loads(text), "x").arms()
    names = ["T=1", "T=1 + greedy,beam:4", "cold", "T=1 top-p=0.9 seed=3, support others"]
    assert [one.name for one in (plain, anchored, cold, nucleus)] == names
    assert [one.study.rerank.support for one in (plain, anchored, cold, nucleus)] == ["all", "others", "all", "others"]
    assert anchored.study.model.words == ("greedy", "beam:4") and plain.study.model.words == ()
    assert (cold.study.model.temperature, cold.study.model.top_p, cold.study.model.seed) == (0.7, 0.9, 0)
    assert all(one.study.samplings == () for one in (plain, anchored, cold, nucleus))


def test_a_study_is_the_paper_s_by_default() -> None:
    (arm,) = parse(tomllib.loads(TEST_SET), "x").arms()
    assert (arm.study.model.temperature, arm.study.model.anchors, arm.study.rerank.support) == (1.2, "none", "all")
    (arm,) = parse(tomllib.loads(TEST_SET + '[model]\npools = "a/b.jsonl.gz"\nanchors = "given"\n'), "x").arms()
    assert (arm.name, arm.study.rerank.support) == ("b.jsonl.gz + given", "others")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[[samplings]]\ntemperatur = 1",
            "x, [[samplings]] 1, temperatur: unknown field of [[samplings]] 'temperatur'",
        ),
        ("[samplings]\ntemperature = 1", "x: samplings must be sections, each under [[samplings]]"),
        ("[[samplings]]\nanchors = 'beem:4'", "x: anchors must be none, or some of greedy, beam:N, N@T"),
        ("[[samplings]]\nseed = 0", "x: two samplings of the study are called 'T=1.2'"),
        (
            "[model]\npools = 'a'\n[[samplings]]\ntemperature = 1",
            "x: the sampling a sets temperature, and recorded pools",
        ),
        ("[live]\nsamplings = ['T=1']", "x, [live], samplings: unknown sampling 'T=1' (did you mean 'T=1.2'?)"),
        ("[baselines]\nanchors = 'greedy,greedy'", "x: anchors names the same anchor twice"),
    ],
)
def test_samplings_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(tomllib.loads(TEST_SET + text), "x")
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_the_example_in_the_documentation() -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", DOCS.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    study = parse(tomllib.loads(text), "docs/lab.md")
    assert [arm.name for arm in study.arms()] == ["T=1", "T=1 + greedy,beam:4", "cold", "cold and anchored"]
    assert study.arms()[-1].study.model.temperature == 0.7
    assert study.baselines.words == ("greedy", "beam:4", "beam:16")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: No such file or directory \(quitmt lab init writes one\)"):
        load(str(tmp_path / "nowhere.toml"))
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        load(str(tmp_path))
    (tmp_path / "latin").write_bytes(b"# \xe9\n")
    with pytest.raises(InputError, match=r"is not TOML: .*utf-8"):
        load(str(tmp_path / "latin"))


def test_a_recipe_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = "[model]\nseed = 4\ntemperature = 0.7\n[rerank]\nname = 'qe:likelihood'\n[stop]\nk = 4\nn = 64\nw = 2\n"
    Path("my.toml").write_text(recipe)
    study = parse(tomllib.loads('recipe = "my.toml"\n' + TEST_SET + "[model]\nseed = 5\n"), "study")
    assert (study.model.seed, study.model.temperature, study.model.budget) == (5, 0.7, 64)
    assert (study.rerank.rerankers, study.rules.k, study.live.windows) == (("qe:likelihood",), 4, (2,))
    assert study.recipe_of("qe:likelihood").stop.n == 64
    Path("my.toml").write_text("[model]\nseed = 4\n")
    study = parse(tomllib.loads('recipe = "my.toml"\n' + TEST_SET), "study")
    run = resolve(Recipe()).recipe.model  # not the paper's sampling: a recipe is studied as it would run
    assert (study.model.temperature, study.model.anchors) == (run.temperature, run.anchors)
    assert study.live.windows == LiveSettings().windows
    Path("my.toml").write_text("[rerank]\nfilter = 'qe:likelihood'\n")
    with pytest.raises(InputError, match=r"the lab replays exact MBR and QE, and my.toml has a filter"):
        parse(tomllib.loads('recipe = "my.toml"\n' + TEST_SET), "study")


FIELDS: list[tuple[str, str, Any]] = [
    ("model", "name", "evil:generate"),
    ("rerank", "rerankers", ["mbr:chrf", "mbr:evil:utility"]),
    ("rerank", "rerankers", ["qe:evil:score"]),
    ("rerank", "rerankers", ["qe:0.5*likelihood+0.5*evil:score"]),
    ("rerank", "rerankers", ["mbr:vote:evil:answer"]),
    ("rules", "beyond", ["evil:rule"]),
    ("live", "rules", ["evil:rule"]),
    ("evaluate", "metrics", ["chrf++", "evil:metric"]),
]


@pytest.mark.parametrize(("section", "field", "value"), FIELDS)
def test_a_function_is_found_by_its_field(section: str, field: str, value: Any) -> None:
    study = parse({"test_set": {"tsv": "a"}, section: {field: value}}, "s.toml")
    spec = value[-1] if isinstance(value, list) else value
    assert list(functions_in(study)) == [(f"[{section}], {field}", spec)]


def test_our_own_names_are_no_functions() -> None:
    study = parse(
        {
            "test_set": {"tsv": "a"},
            "model": {"name": "openai:org/model:free"},
            "rerank": {
                "rerankers": [
                    "mbr:chrf",
                    "mbr:vote",
                    "mbr:comet:org/model",
                    "qe:0.7*kiwi+0.3*likelihood",
                    "qe:recorded:q",
                ]
            },
            "live": {"rules": ["loss:most=0.0005", "headroom"]},
            "evaluate": {"metrics": ["chrf", "bleu:zh", "comet:org/model", "gemba:openai:m"]},
        },
        "s.toml",
    )
    assert list(functions_in(study)) == []
    assert list(functions_in(parse({"test_set": {"tsv": "a"}}, "s.toml"))) == []


def test_pools_need_no_model() -> None:
    study = parse({"test_set": {"tsv": "a"}, "model": {"name": "evil:x", "pools": "p.jsonl"}}, "s.toml")
    assert list(functions_in(study)) == []
