"""What is wrong with a recipe is known before anything is loaded, and by the name that the reader knows."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import quitmt
from quitmt import generate, rerank, stop
from quitmt.calibrate import profile
from quitmt.errors import Mistakes, QuitmtError, UsageError
from quitmt.generate import anchors
from quitmt.generate.recorded import RecordedGenerator
from quitmt.metrics.likelihood import Likelihood
from quitmt.plan import ModelRecipe, Origin, Recipe, files
from quitmt.plan.build import build
from quitmt.plan.plan import Parts
from quitmt.plan.resolve import resolve
from quitmt.protocols import RerankerTraits, traits_of
from quitmt.rerank import Reranking, specs


def recipe(**changes: Any) -> Recipe:
    return Recipe().changed({name.replace("__", "."): value for name, value in changes.items()})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__name": "embeded:en-pt"}, "unknown model 'embeded:en-pt' (did you mean 'embedded:en-pt'?)"),
        ({"model__name": "embedded:en-qq"}, "the model embedded:en-qq is not on this machine (quitmt models get"),
        (
            {"model__name": "embedded:en-pt", "model__target_language": "de"},
            "embedded:en-pt translates en to pt, not en to de",
        ),
        ({"model__target_language": "xx"}, "'xx' is not a language code (use BCP-47, such as de, pt-BR or zh-Hant)"),
        ({"stop__k": 1000}, "k=1000 is more than the budget of 256 candidates (give at most 256, or a larger n)"),
        ({"stop__max_loss": 5}, "max_loss=5 exceeds the range of mbr:chrf, whose scores differ by at most 1 (such as"),
        ({"model__temperature": -1.0}, "temperature must be 0 or more, not -1.0"),
        ({"model__top_k": 0}, "top"),
        ({"model__top_p": 1.5}, "top"),
        ({"model__epsilon": 1.0}, "epsilon"),
        ({"model__source_language": "english"}, "'english' is not a language code (did you mean en?)"),
        ({"model__source_language": "xyzzyish"}, "'xyzzyish' is not a language code (use BCP-47, such as de"),
        ({"model__context": -1}, "context must be 0 or more"),
        ({"model__context": 2}, "context goes with chat models, not with embedded:en-pt"),
        ({"model__options.base_url": "x"}, "options['base_url'] goes with openai: not with embedded:"),
        (
            {"model__name": "openai:m", "model__options.concurrency": "many"},
            "options['concurrency'] must be a whole number, not 'many'",
        ),
        (
            {"model__name": "openai:m", "model__options.api": "talk"},
            "options['api'] must be one of chat, completions, not 'talk'",
        ),
        ({"model__name": "openai:m", "model__epsilon": 0.1}, "openai: cannot sample with epsilon (leave it out)"),
        (
            {"model__name": "openai:m", "model__options.bse_url": "x"},
            "unknown option of openai: 'bse_url' (did you mean 'base_url'?)",
        ),
        ({"model__name": "object:function:f"}, "model 'object:function:f' was an object of a Python program"),
        ({"rerank__name": "mbr:chrff"}, "unknown reranker 'mbr:chrff' (did you mean 'mbr:chrf'?)"),
        ({"rerank__name": "comet"}, "unknown reranker 'comet' (did you mean 'mbr:comet'?)"),
        (
            {"rerank__name": "qe:likelihood:hf:some/model"},
            "qe:likelihood takes Bergamot models and the embedded ones, not 'hf:some/model' (name one, as in "
            "qe:likelihood:bergamot:PATH or qe:likelihood:embedded:pt-en)",
        ),
        ({"rerank__variant": "prun"}, "unknown kind of MBR 'prun' (did you mean 'prune'?)"),
        ({"rerank__variant": "prune", "rerank__filter": "qe:likelihood"}, "mbr and filter do not go together"),
        ({"rerank__name": "mbr:commet:MODEL"}, "there is no 'commet', and no module of that name (did you mean"),
        ({"rerank__keep": 4}, "keep goes with filter (as in filter='qe:likelihood' keep=64)"),
        ({"rerank__device": "cpu"}, "hardware.device goes with scoring models such as mbr:comet, not with mbr:chrf"),
        (
            {"rerank__name": "mbr:comet", "rerank__dtype": "int4"},
            "hardware.dtype must be one of float32, bfloat16, float16, not 'int4'",
        ),
        (
            {"rerank__name": "qe:likelihood", "rerank__variant": "prune"},
            "mbr goes with an mbr: reranker, not with qe:likelihood",
        ),
        ({"stop__rule": "fixed:x"}, "'fixed:x' must be fixed:N with a whole number N of at least 1, such as fixed:64"),
        ({"stop__rule": "fxied:4"}, "there is no 'fxied', and no module of that name (did you mean 'fixed'?)"),
        ({"stop__rule": "los:most=0.1"}, "unknown stopping rule 'los:most=0.1' (did you mean 'loss'?)"),
        ({"stop__rule": "loss:mots=0.1"}, "unknown option of the stopping rule loss 'mots' (did you mean 'most'?)"),
        ({"stop__max_cost": 0.0}, "max_cost must be at least 1 candidate per segment"),
        ({"stop__rule": "quti"}, "unknown stopping rule 'quti' (did you mean 'quit'?)"),
        (
            {"stop__rule": "quit", "stop__max_cost": 9.0},
            "max_loss, max_cost and profile go with rule='auto', not with quit",
        ),
        ({"stop__max_loss": 1.0, "stop__max_cost": 9.0}, "max_loss and max_cost are two different targets"),
        ({"stop__k": 0}, "k must be a whole number of at least 1, not 0"),
        ({"stop__w": 1}, "w = 1 always stops at the first step"),
        ({"stop__profile": "nowhere.json"}, "cannot read nowhere.json"),
        ({"stop__rule": "loss", "rerank__variant": "prune"}, "the rule loss needs exact MBR, not mbr:chrf"),
        ({"stop__rule": "headroom"}, "the rule headroom is for QE, not for mbr:chrf"),
        ({"run__in_flight": 0}, "at least 1 segment must be in flight, not 0"),
        ({"run__deadline": 0.0}, "a segment's deadline must be a number of seconds above 0, not 0.0"),
    ],
)  # fmt: skip
def test_what_is_wrong(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(QuitmtError) as caught:
        recipe(**changes).check()
    assert str(caught.value).startswith(said)
    assert "--" not in str(caught.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        recipe(model__temperature=-1.0, rerank__keep=3, stop__w=0, run__in_flight=0).check()
    for part in ("temperature", "keep goes with filter", "w must be", "in flight"):
        assert part in str(caught.value)


def test_resolving_loads_nothing_heavy() -> None:
    code = (
        "import sys; from quitmt.plan import Recipe, resolve; "
        "recipes = [{}, {'rerank.name': 'qe:likelihood'}, {'model.name': 'hf:x', 'rerank.name': 'mbr:comet'}]; "
        "[resolve(Recipe().changed(changes), installed=False) for changes in recipes]; "
        "heavy = {'numba', 'torch', 'transformers', 'sentencepiece', 'quitmt.bergamot.models'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr


NAMED = [
    ("mbr:chrf", {}),
    ("mbr:chrf:order=4", {}),
    ("mbr:vote", {}),
    ("mbr:chrf", {"variant": "prune"}),
    ("mbr:chrf", {"variant": "aggregate:top=5"}),
    ("mbr:chrf", {"filter": "qe:likelihood"}),
    ("mbr:chrf", {"filter": "qe:recorded:x", "keep": 3}),
    ("qe:likelihood", {}),
    ("qe:recorded:x", {}),
    ("qe:0.5*likelihood+2*recorded:x", {}),
]


@pytest.mark.parametrize("languages", [("en-US", "pt-BR"), ("EN", "pt_PT"), (None, "pt-BR"), ("en", None)])
def test_embedded_models_are_found_whatever_the_region(languages: tuple[str | None, str | None]) -> None:
    for name in (None, "embedded:en-pt"):
        requested = recipe(model__name=name, model__source_language=languages[0], model__target_language=languages[1])
        assert resolve(requested).recipe.model.languages == ("en", "pt")
        assert resolve(requested).recipe.model.name == "embedded:en-pt"


@pytest.mark.parametrize(("name", "settings"), NAMED)
def test_traits_are_known_before_anything_is_loaded(name: str, settings: dict[str, Any]) -> None:
    choice = Reranking(name, **settings)
    choice.check()
    assert traits_of(rerank.load(name, **settings), RerankerTraits) == choice.traits


def test_a_plan_resolves_each_thing_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        def count(*arguments: Any, **settings: Any) -> Any:
            calls[f"{module.__name__}.{name}"] += 1
            return function(*arguments, **settings)

        monkeypatch.setattr(module, name, count)

    for module, name in ((specs, "parse"), (generate, "find"), (stop, "find"), (profile, "read"), (anchors, "parse")):
        counted(module, name)
    build(resolve(Recipe()))
    assert calls == {
        "quitmt.rerank.specs.parse": 1,
        "quitmt.generate.find": 1,
        "quitmt.generate.anchors.parse": 1,
        "quitmt.stop.find": 1,  # the rule that is chosen
    }
    point = {"rule": "loss:most=0.1", "mean_size": 1.0, "mean_loss": 0.1, "exceeding": 0.0, "proven": True}
    guarantee = {"max_loss": 0.1, "risk": 0.1, "confidence": None, "segments": 9}
    made = profile.Profile(
        point["rule"], 4, 256, "", "mbr:chrF2,c:6|s:anchor", "en", "pt", profile.Guarantee(**guarantee), 0.1,
        (profile.Point(**point),),
    )  # fmt: skip
    profile.write(made, str(tmp_path / "p.json"))
    calls.clear()
    resolve(recipe(stop__profile=str(tmp_path / "p.json")))
    assert calls["quitmt.calibrate.profile.read"] == 1


def test_a_plan_says_where_each_value_came_from() -> None:
    said = Recipe().changed({"stop.n": 64}, lambda _: Origin("flag", "-n"))
    plan = resolve(said.changed({"rerank.name": "qe:likelihood"}))
    origins = {name: str(origin) for name, origin in plan.recipe.origins.items()}
    assert origins["stop.n"] == "-n" and origins["model.temperature"] == "default of embedded"
    assert origins["model.name"] == origins["model.seed"] == "default"
    assert origins["stop.k"] == "default for auto with qe" and plan.recipe.stop.k == 1
    assert origins["stop.rule"] == "default for a reranker with running best" and "rerank.name" not in origins
    assert resolve(plan.recipe).recipe == plan.recipe


def test_mistakes_are_errors_of_their_own() -> None:
    with pytest.raises(Mistakes) as caught:
        recipe(rerank__name="mbr:chrff", stop__n=0).check()
    assert [error.args[0] for error in caught.value.errors] == [
        "unknown reranker 'mbr:chrff'",
        "n must be a whole number of at least 1, not 0",
    ]


def test_the_plan_of_a_plan_builds_the_same() -> None:
    requested = recipe(rerank__filter="qe:recorded:q", stop__max_cost=20.0, stop__n=64)
    whole = resolve(requested).recipe
    assert (whole.model.name, whole.rerank.keep, whole.stop.rule, whole.stop.k) == ("embedded:en-pt", 64, "auto", 8)
    assert resolve(whole).recipe == whole
    given = Parts(RecordedGenerator())
    assert build(resolve(whole, given)).driver().signature == build(resolve(requested, given)).driver().signature


def test_outcomes_and_translators_carry_the_recipe() -> None:
    translator = quitmt.Translator("embedded:en-pt", n=16, k=4, w=2, seed=5)
    [outcome, blank] = translator.translate(["Good morning.", ""])
    assert outcome.recipe == blank.recipe == translator.recipe.of_results()
    again = Recipe.from_fields(outcome.recipe or {}).build()
    assert again.driver().signature == outcome.signature


def test_a_translator_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    own = quitmt.Translator("embedded:en-pt", n=16, k=4, w=2, seed=5)
    path.write_text(files.to_toml(own.recipe))
    assert quitmt.Translator.from_recipe(path).recipe == own.recipe
    assert (
        quitmt.Translator.from_recipe(own.recipe).translate(["Yes."])[0].signature
        == own.translate(["Yes."])[0].signature
    )
    path.write_text("[rerank]\nname = 'mbr:chrf'\nkeep = 3\n")
    with pytest.raises(UsageError) as caught:
        quitmt.Translator.from_recipe(str(path))
    assert str(caught.value).startswith(f"{path}, line 3: keep goes with filter")


def test_objects_have_a_name_that_cannot_be_built(tmp_path: Path) -> None:
    def sample(source: str, start: int, stop: int) -> list[str]:
        return ["x"] * (stop - start)

    translator = quitmt.Translator(sample, reranker=quitmt.qe(lambda s, c: 1.0, name="one"), rule=quitmt.Fixed(4, 2))
    own = translator.recipe
    assert (own.model.name, own.rerank.name) == ("object:function:" + sample.__qualname__, "object:qe:function:one")
    assert (own.stop.rule, own.stop.k, own.stop.n) == ("object:fixed", 2, 4)
    with pytest.raises(UsageError, match="was an object of a Python program and cannot be made again"):
        own.build()


def test_scorers_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from quitmt.metrics import scorer
    from quitmt.metrics.registry import MetricEntry

    made: list[str] = []

    class Counted:
        signature = "counted"

        def __init__(self, model: str, hardware: object) -> None:
            made.append(model)

    monkeypatch.setattr(scorer, "located", lambda location: Counted)
    monkeypatch.setattr(MetricEntry, "installed", property(lambda self: True))
    first = scorer.load("comet")
    assert scorer.load("comet") is first and scorer.load("comet:Unbabel/wmt22-comet-da") is first
    other = scorer.load("comet:another")
    assert other is not first and made == ["Unbabel/wmt22-comet-da", "another"]
    del first
    scorer.load("comet")
    assert len(made) == 3  # nobody held it: its memory was free


# Where the command line, Python and the lab disagreed before recipes.


def test_likelihood_of_a_pool_has_languages_as_on_the_command_line() -> None:
    pool = ["Bom dia.", "Boa noite.", "xyz"]
    chosen = quitmt.rerank_pool(pool, "Good morning.", reranker="qe:likelihood", rule="full")
    assert chosen.translation == "Bom dia." and "embedded:pt-en" in chosen.signature


def test_headroom_on_mbr_is_refused_for_objects_too() -> None:
    with pytest.raises(UsageError, match="the rule headroom is for QE"):
        quitmt.rerank_pool(["a"], reranker=quitmt.mbr(lambda h, r: 1.0), rule="headroom")


@pytest.mark.parametrize("faster", [{"variant": "prune"}, {"filter": "qe:recorded:q"}])
def test_auto_speaks_of_mbr_where_it_is_mbr(faster: dict[str, Any]) -> None:
    pool = [quitmt.Candidate("a", scores={"q": 1.0})]
    with pytest.raises(UsageError, match="does not know what mbr:chrF2, which is not exact MBR, loses"):
        quitmt.rerank_pool(pool, reranker=rerank.load("mbr:chrf", **faster), rule="auto")


def test_an_estimator_needs_a_source_by_whatever_way_it_comes() -> None:
    for reranker in ("qe:likelihood", quitmt.qe(Likelihood())):
        with pytest.raises(QuitmtError, match="segment 1 has no source, which qe:likelihood needs"):
            quitmt.rerank_pool(["a"], "", reranker=reranker)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"window": 4}, "there is no setting 'window' (did you mean 'w'?)"),
        ({"stop": "full"}, "there is no setting 'stop' (did you mean 'rule'?)"),
        ({"rerank": "mbr:chrf"}, "there is no setting 'rerank' (did you mean 'reranker'?)"),
        ({"budget": 8}, "there is no setting 'budget' (did you mean 'n'?)"),
        ({"temprature": 1}, "there is no setting 'temprature' (did you mean 'temperature'?)"),
        ({"languages": "en-de"}, "languages must be a pair of codes such as ('en', 'de'), not 'en-de'"),
        ({"rule": quitmt.Fixed(4), "k": 4}, "k: these go with a rule given by name, and an object has its own"),
        ({"hardware": "cuda"}, "hardware must be a quitmt Hardware(device, dtype, batch_tokens), not 'cuda'"),
    ],
)
def test_keywords_that_do_not_exist(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        quitmt.Translator(**settings)
    assert str(caught.value) == said


def test_keywords_of_a_wrong_type() -> None:
    with pytest.raises(QuitmtError, match="k must be a whole number, not 'four'"):
        quitmt.Translator(k="four")  # type: ignore[arg-type]
    with pytest.raises(QuitmtError, match="temperature must be a number, not 'hot'"):
        quitmt.Translator(temperature="hot")


def test_context_is_given_to_segments_in_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Listening:
        signature = "listening"

        async def draw(self, requests: Any) -> Any:
            for request in requests:
                seen.append(request.segment.context)
                yield quitmt.Draw(request.segment, request.start, tuple(quitmt.Candidate("x") for _ in range(8)))

        def close(self, segment: object) -> None:
            pass

    monkeypatch.setattr("quitmt.generate.Model.load", lambda *_: Listening())
    path = tmp_path / "chat.toml"
    path.write_text("[model]\nname = 'openai:m'\nanchors = 'none'\ncontext = 2\noptions = {base_url = 'http://a/v1'}\n")
    quitmt.Translator.from_recipe(path).translate(
        ["one", "two", "three", "", "four", quitmt.Segment("own", "five", context="mine")]
    )
    assert seen == ["", "one", "one\ntwo", "", "mine"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rerank__name": "mbr:chrf:order=x"}, "'order=x' is not a setting of mbr:chrf"),
        ({"rerank__name": "mbr:chrf:beta=nan"}, "chrF's beta must be a positive number, not nan"),
        ({"rerank__name": "mbr:vote:nowhere_at_all:f"}, "there is no module nowhere_at_all"),
        ({"stop__rule": "loss:most=0.1,most=0.2"}, "the stopping rule loss has most twice"),
        ({"stop__rule": ""}, "unknown stopping rule ''"),
    ],
)
def test_names_are_checked_with_their_options(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(QuitmtError, match=said):
        recipe(**changes).check()


def test_all_numbers_that_are_wrong_are_told() -> None:
    with pytest.raises(UsageError) as caught:
        recipe(model__top_p=2.0, model__epsilon=5.0, stop__alpha=-1.0, stop__rule="quti").check()
    for part in ("top_p", "epsilon", "alpha", "unknown stopping rule"):
        assert part in str(caught.value)


def test_fields_that_a_recipe_has_not() -> None:
    for name in ("stop.foo", "w", "nowhere.k"):
        with pytest.raises(UsageError, match="unknown field of a recipe"):
            Recipe().changed({name: 1})


def test_options_stay_as_they_are() -> None:
    options = recipe(model__name="openai:m", **{"model__options.api": "chat"}).model.options
    with pytest.raises(TypeError, match="a recipe cannot be changed"):
        options["api"] = "completions"  # type: ignore[index]
    assert hash(ModelRecipe(options={"a": 1, "b": 2})) == hash(ModelRecipe(options={"b": 2, "a": 1}))


def test_an_option_of_an_engine_as_a_keyword() -> None:
    with pytest.raises(
        TypeError, match=r"there is no setting 'base_url' .options=.'base_url': …. gives it to the engine"
    ):
        quitmt.Translator("openai:m", base_url="http://a/v1")


def test_who_has_no_order_refuses_to_pace() -> None:
    with pytest.raises(UsageError, match=r"max_cost paces segments in their order, and workers of a batch have none"):
        resolve(recipe(rerank__name="qe:recorded:q", stop__max_cost=40.0)).refuse_pacing()
    resolve(recipe(rerank__name="qe:recorded:q", stop__max_cost=1.0)).refuse_pacing()  # a fixed number
    resolve(recipe(rerank__name="qe:recorded:q")).refuse_pacing()


def test_one_wrong_number_is_told_once() -> None:
    for rule in (None, "quit", "full", "auto"):
        with pytest.raises(UsageError, match=r"^n must be a whole number of at least 1, not -5$"):
            recipe(stop__rule=rule, stop__n=-5).check()
