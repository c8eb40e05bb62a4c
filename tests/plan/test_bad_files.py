"""Recipes as an adversary or a tired person writes them: one sentence with the file, the line and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import quitmt as package
from quitmt.errors import InputError, QuitmtError
from quitmt.plan import files
from tests.conftest import Ran

Quitmt = Callable[..., Ran]

HEX = "0x" + "f" * 6000
DEEP = '{"a": ' * 960 + "1" + "}" * 960

TOML = {
    "a field": (
        "[model]\ntemprature = 1\n",
        "line 2: [model] temprature: unknown field of [model] 'temprature' (did you mean 'temp",
    ),
    "a section": (
        "[modell]\nname = 'x'\n",
        "line 1: modell: unknown section of a recipe 'modell' (did you mean 'model'?)",
    ),
    "a type": ("[model]\n\ntop_k = 'ten'\n", "line 3: [model] top_k must be a whole number, not 'ten'"),
    "a fraction": ("[stop]\nw = 4.0\n", "line 2: [stop] w must be a whole number, not 4.0"),
    "a number for yes": ("[run]\nspeculate = 1\n", "line 2: [run] speculate must be true or false, not 1"),
    "a list for a loss": ("[stop]\nmax_loss = []\n", "line 2: [stop] max_loss must be a text or a number, not []"),
    "no section": ("model = 3\n", "line 1: model must be a section, not 3"),
    "a date": ("[model]\nname = 1979-05-27\n", "line 2: [model] name must be a text, not datetime.date("),
    "yes for a number": ("[stop]\nk = true\n", "line 2: [stop] k must be a whole number, not True"),
    "a list of sections": ("[[model]]\nname = 'x'\n", ": model must be a section, not [{"),
    "infinity": ("[stop]\nalpha = inf\n", "line 2: alpha must be a number of at least 0, not inf"),
    "a window": ("[stop]\n# long ago\nw = 0\n", "line 3: w must be a whole number of at least 1, not 0"),
    "a large number": ("[stop]\nn = 10000001\n", "line 2: n must be at most 10000000"),
    "a huge number": (f"[stop]\nn = {HEX}\n", "line 2: [stop] n is too large: a whole number has at most 64 bits"),
    "a huge number within": (f"[stop]\nn = [{HEX}]\n", "line 2: [stop] n must be a whole number, not one that is too"),
    "a huge option": (
        f"[model]\nname = 'openai:m'\noptions = {{max_tokens = {HEX}}}\n",
        "line 3: [model] options.max_tokens is too large",
    ),
    "many digits": (
        f"[stop]\nn = {'9' * 6000}\n",
        " isn't a recipe: a number is too long, or something nested too deeply",
    ),
    "many brackets": (
        f"[stop]\nn = {'[' * 5000}\n",
        " isn't a recipe: a number is too long, or something nested too deeply",
    ),
    "not TOML": ("this is not TOML\n", " is not TOML: Expected '='"),
    "twice": ("[stop]\nw = 4\nw = 5\n", " is not TOML: Cannot overwrite a value (at line 3"),
    "CRLF": ("[stop]\r\nw = 4\r\nk = 0\r\n", "line 3: k must be a whole number of at least 1, not 0"),
    "nothing": ("", " is empty (quitmt recipe prints a whole one)"),
    "nothing but space": ("\n \n", " is empty"),
    "terminal codes": ('[model]\nname = "a\\u001b[31m"\n', "line 2: unknown model 'a\\x1b[31m'"),
    "a broken module": (
        "[rerank]\n\nname = 'mbr:broken_of_a_test:f'\n",
        "line 3: the module broken_of_a_test fails while it is imported: ModuleNotFoundError",
    ),
    "a broken module's model": ("[model]\nname = 'broken_of_a_test:f'\n", "line 2: the module broken_of_a_test fails"),
    "a broken module's rule": ("[stop]\nrule = 'broken_of_a_test:f'\n", "line 2: the module broken_of_a_test fails"),
    "a kind of MBR": (
        "[rerank]\nname = 'mbr:chrf'\nvariant = 'prun'\n",
        "line 3: unknown kind of MBR 'prun' (did you mean 'prune'?)",
    ),
    "more than the budget": ("[stop]\nrule = 'fixed:64'\nn = 8\n", "line 2: 'fixed:64' is more than the budget of 8"),
    "two pairs of languages": (
        "[model]\nname = 'embedded:en-pt'\ntarget_language = 'de'\n",
        "line 2: embedded:en-pt translates en to pt, not en to de",
    ),
    "a deadline": ("[run]\ndeadline = 9\nrun_deadline = -1\n", "line 3: a run's deadline must be"),
    "another file as profile": (
        "[stop]\nprofile = '/dev/zero'\n",
        "line 2: /dev/zero is not a profile (quitmt calibrate writes them)",
    ),
    "an option": (
        "[model]\nname = 'openai:m'\n[model.options]\nbse_url = 'x'\n",
        "line 4: unknown option of openai: 'bse_url' (did you mean 'base_url'?)",
    ),
    "options in an option": (
        "[model]\nname = 'openai:m'\n[model.options.base_url]\na = 1\n",
        "line 3: base_url must be a text, or a list of texts, not {'a': 1}",
    ),
    "no options": ("[model]\nname = 'openai:m'\noptions = 'x'\n", "line 3: [model] options must be a table, not 'x'"),
}

JSON = {
    "not JSON": ("{", " is not JSON: "),
    "no object": ("[1]", " isn't a recipe: it must be an object of sections"),
    "a type": ('{"stop": {\n "k": 8,\n "w": "4"}}', "line 3: [stop] w must be a whole number, not '4'"),
    "null": ('{"stop": null}', "line 1: stop must be a section, not None"),
    "twice": ('{"stop": {"w": 4,\n "w": 5}}', ": 'w' occurs twice"),
    "NaN": ('{"stop": {\n"alpha": NaN}}', "line 2: alpha must be a number of at least 0, not nan"),
    "half a character": (
        '{"rerank": {"name": "mbr:\\ud800"}}',
        "[rerank] name must be Unicode text without zero bytes",
    ),
    "a zero byte": ('{"model": {"name": "bergamot:\\u0000"}}', "[model] name must be Unicode text without zero bytes"),
    "half a key": ('{"rerank": {"\\ud800": 1}}', "unknown field of [rerank] '\\ud800'"),
    "many brackets": ("[" * 100_000, " isn't a recipe: something is nested too deeply"),
    "many options": (f'{{"model": {{"options": {DEEP}}}}}', "deep"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_of_a_test.py").write_text("import there_is_no_such_module\n")
    return tmp_path


CASES = [("bad.toml", *case) for case in TOML.values()] + [("bad.json", *case) for case in JSON.values()]


@pytest.mark.parametrize(("name", "text", "said"), CASES, ids=[*TOML, *(f"JSON: {name}" for name in JSON)])
def test_one_sentence_with_the_place(name: str, text: str, said: str, folder: Path) -> None:
    (folder / name).write_bytes(text.encode())
    with pytest.raises(QuitmtError) as caught:
        package.Translator.from_recipe(name, allow_functions=True)
    told = str(caught.value)
    assert name in told and said in told and "--" not in told
    assert "\n" not in told and len(told) < 400


def test_the_command_line_speaks_of_flags(quitmt: Quitmt, folder: Path) -> None:
    (folder / "bad.toml").write_text('[model]\nname = "a\\u001b[31m"\n[rerank]\nkeep = 3\n')
    ran = quitmt("recipe", "--recipe", "bad.toml", "--allow-functions")
    assert (ran.code, ran.out) == (2, "") and ran.err.startswith("quitmt: ") and ran.err.count("\n") == 1
    assert "bad.toml, line 2: unknown model 'a\\x1b[31m'" in ran.err
    assert "bad.toml, line 4: keep goes with --filter (as in --filter qe:likelihood --keep 64)" in ran.err


def test_a_mark_of_the_encoding_is_no_mistake(folder: Path) -> None:
    for name, text in (("a.toml", "\ufeff[stop]\nw = 4\n"), ("a.json", '\ufeff{"stop": {"w": 4}}')):
        (folder / name).write_bytes(text.encode())
        assert files.load(name).stop.w == 4


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", "cannot read /: Is a directory"),
        ("nowhere.toml", "cannot read nowhere.toml: No such file"),
        ("/dev/zero", "/dev/zero isn't a recipe: it has more than"),
        ("large.toml", "large.toml isn't a recipe: it has more than"),
        ("latin.toml", "latin.toml is not UTF-8"),
    ],
)
def test_paths_that_are_no_recipes(path: str, said: str, folder: Path) -> None:
    (folder / "latin.toml").write_bytes(b"[model]\nname = '\xe9'\n")
    (folder / "large.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(InputError) as caught:
        files.load(path)
    assert str(caught.value).startswith(said)


def test_a_profile_of_another_recipe(quitmt: Quitmt, folder: Path) -> None:
    pools = [
        {"id": str(n), "candidates": ["a b", "a c", f"b {n}", "a b"], "scores": {"q": [1, 2, 3, n]}} for n in range(8)
    ]
    (folder / "pools.jsonl").write_text("\n".join(map(json.dumps, pools)))
    guarantee = "-n 4 -k 2 --max-loss 0.1 --risk 0.9 --confidence none -q -o profile.json"
    assert quitmt("calibrate", "pools.jsonl", *guarantee.split()).code == 0
    (folder / "bad.toml").write_text("[rerank]\nname = 'qe:recorded:q'\n[stop]\nprofile = 'profile.json'\n")
    ran = quitmt("rerank", "pools.jsonl", "--recipe", "bad.toml")
    assert ran.code == 2 and ran.err.count("\n") == 1
    said = "bad.toml, line 2: name is qe:recorded:q, and bad.toml, line 4: profile was made for mbr:chrf"
    assert ran.err.startswith(f"quitmt: {said}")
