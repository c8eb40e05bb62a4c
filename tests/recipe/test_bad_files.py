"""Recipes as an adversary or a tired person writes them: one sentence with the file, the line and what is allowed."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import quitmt as package
from quitmt.errors import QuitmtError
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
    "a date": ("[model]\nname = 1979-05-27\n", "line 2: [model] name must be a text, not datetime.date("),
    "yes for a number": ("[stop]\nk = true\n", "line 2: [stop] k must be a whole number, not True"),
    "a list of sections": ("[[model]]\nname = 'x'\n", ": model must be a section, not [{"),
    "infinity": ("[stop]\nalpha = inf\n", "line 2: alpha must be a number of at least 0, not inf"),
    "a window": ("[stop]\n# long ago\nw = 0\n", "line 3: w must be a whole number of at least 1, not 0"),
    "one step": ("[stop]\nw = 1\n", "line 2: w = 1 always stops at the first step"),
    "a large number": ("[stop]\nn = 10000001\n", "line 2: n must be at most 10000000"),
    "a huge number": (f"[stop]\nn = {HEX}\n", "line 2: [stop] n is too large: a whole number has at most 64 bits"),
    "a huge number within": (f"[stop]\nn = [{HEX}]\n", "line 2: [stop] n must be a whole number, not one that is too"),
    "a huge option": (
        f"[model]\nname = 'openai:m'\noptions = {{max_tokens = {HEX}}}\n",
        "line 3: [model] options.max_tokens is too large",
    ),
    "many digits": (
        f"[stop]\nn = {'9' * 6000}\n",
        " is no recipe: a number is too long, or something nested too deeply",
    ),
    "many brackets": (
        f"[stop]\nn = {'[' * 5000}\n",
        " is no recipe: a number is too long, or something nested too deeply",
    ),
    "not TOML": ("this is not TOML\n", " is not TOML: Expected '='"),
    "twice": ("[stop]\nw = 4\nw = 5\n", " is not TOML: Cannot overwrite a value (at line 3"),
    "CRLF": ("[stop]\r\nw = 4\r\nk = 0\r\n", "line 3: k must be a whole number of at least 1, not 0"),
    "a mark of the encoding": ("\ufeff[stop]\nk = 0\n", "line 2: k must be"),
    "nothing": ("", " is empty (quitmt recipe prints a whole one)"),
    "nothing but space": ("\n \n", " is empty"),
    "terminal codes": ('[model]\nname = "a\\u001b[31m"\n', "line 2: unknown model 'a\\x1b[31m'"),
    "a broken module": (
        "[rerank]\n\nname = 'mbr:broken_of_a_test:f'\n",
        "line 3: the module broken_of_a_test fails while it is imported: ModuleNotFoundError",
    ),
    "a broken module's model": ("[model]\nname = 'broken_of_a_test:f'\n", "line 2: the module broken_of_a_test fails"),
    "a broken module's rule": ("[stop]\nrule = 'broken_of_a_test:f'\n", "line 2: the module broken_of_a_test fails"),
    "a broken module's filter": (
        "[rerank]\nfilter = 'qe:broken_of_a_test:f'\n",
        "line 2: the module broken_of_a_test fails",
    ),
    "a kind of MBR": (
        "[rerank]\nname = 'mbr:chrf'\nvariant = 'prun'\n",
        "line 3: unknown kind of MBR 'prun' (did you mean 'prune'?)",
    ),
    "a rule and a wish": ("[stop]\nrule = 'quit'\nmax_loss = 0.1\n", "line 3: max_loss, "),
    "two wishes": ("[stop]\nmax_cost = 9\nmax_loss = 0.1\n", "are two different wishes (give one of them)"),
    "more than the budget": ("[stop]\nrule = 'fixed:64'\nn = 8\n", "line 2: 'fixed:64' is more than the budget of 8"),
    "a rule for QE": ("[stop]\nrule = 'headroom'\n", "line 2: the rule headroom is for QE, not for mbr:chrf"),
    "two pairs of languages": (
        "[model]\nname = 'embedded:en-pt'\ntarget_language = 'de'\n",
        "line 2: embedded:en-pt translates en to pt, not en to de",
    ),
    "nobody in flight": ("[run]\nin_flight = 0\n", "line 2: at least 1 segment must be in flight, not 0"),
    "a deadline": ("[run]\ndeadline = 9\nrun_deadline = -1\n", "line 3: a run's deadline must be"),
    "no profile": ("[stop]\nprofile = 'nowhere.json'\n", "line 2: cannot read nowhere.json: No such file or directory"),
    "another file as profile": (
        "[stop]\nprofile = '/dev/zero'\n",
        "line 2: /dev/zero is not a profile (quitmt calibrate writes them)",
    ),
    "a folder as profile": ("[stop]\nprofile = '/'\n", "line 2: cannot read /: Is a directory"),
    "an option": (
        "[model]\nname = 'openai:m'\n[model.options]\nbse_url = 'x'\n",
        "line 4: unknown option of openai: 'bse_url' (did you mean 'base_url'?)",
    ),
    "the type of an option": (
        "[model]\nname = 'openai:m'\noptions = {concurrency = 1.5}\n",
        "line 3: concurrency must be a whole number, not 1.5",
    ),
    "options in an option": (
        "[model]\nname = 'openai:m'\n[model.options.base_url]\na = 1\n",
        "line 3: base_url must be a text, or a list of texts, not {'a': 1}",
    ),
    "no options": ("[model]\nname = 'openai:m'\noptions = 'x'\n", "line 3: [model] options must be a table, not 'x'"),
    "another engine's option": ("[model]\noptions = {max_tokens = 3}\n", "line 2: max_tokens goes with openai:"),
    "no tokens": (
        "[model]\nname = 'openai:m'\noptions = {max_tokens = 0}\n",
        "line 3: at least 1 token must be allowed, not 0",
    ),
}

JSON = {
    "not JSON": ("{", " is not JSON: "),
    "no object": ("[1]", " is no recipe: it must be an object of sections"),
    "null": ('{"stop": null}', "line 1: stop must be a section, not None"),
    "twice": ('{"stop": {"w": 4,\n "w": 5}}', ": 'w' stands there twice"),
    "NaN": ('{"stop": {\n"alpha": NaN}}', "line 2: alpha must be a number of at least 0, not nan"),
    "half a character": (
        '{"rerank": {"name": "mbr:\\ud800"}}',
        "[rerank] name must be Unicode text without zero bytes",
    ),
    "a zero byte": ('{"model": {"name": "bergamot:\\u0000"}}', "[model] name must be Unicode text without zero bytes"),
    "half a key": ('{"rerank": {"\\ud800": 1}}', "unknown field of [rerank] '\\ud800'"),
    "many brackets": ("[" * 100_000, " is no recipe: something is nested too deeply"),
    "many options": (f'{{"model": {{"options": {DEEP}}}}}', "deep"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_of_a_test.py").write_text("import there_is_no_such_module\n")
    return tmp_path


CASES = [("bad.toml", *case) for case in TOML.values()] + [("bad.json", *case) for case in JSON.values()]


@pytest.mark.parametrize(("name", "text", "said"), CASES, ids=[*TOML, *(f"JSON: {name}" for name in JSON)])
def test_one_sentence_with_the_place(name: str, text: str, said: str, quitmt: Quitmt, folder: Path) -> None:
    (folder / name).write_bytes(text.encode())
    ran = quitmt("recipe", "--recipe", name, "--allow-functions")
    assert ran.code == 2 and ran.err.startswith("quitmt: ") and ran.err.count("\n") == 1
    assert name in ran.err and said in ran.err and len(ran.err) < 400
    with pytest.raises(QuitmtError) as caught:
        package.Translator.from_recipe(name, allow_functions=True)
    if "\x1b" not in str(caught.value):
        assert said in str(caught.value) and "--" not in str(caught.value)


def test_a_mark_of_the_encoding_is_no_mistake(quitmt: Quitmt, folder: Path) -> None:
    for name, text in (("a.toml", "\ufeff[stop]\nw = 4\n"), ("a.json", '\ufeff{"stop": {"w": 4}}')):
        (folder / name).write_bytes(text.encode())
        ran = quitmt("recipe", "--recipe", name)
        assert ran.code == 0 and "\nw = 4 " in ran.out


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/", "cannot read /: Is a directory"),
        ("nowhere.toml", "cannot read nowhere.toml: No such file"),
        ("/dev/zero", "/dev/zero is no recipe: it has more than"),
    ],
)
def test_paths_that_are_no_recipes(path: str, said: str, quitmt: Quitmt) -> None:
    ran = quitmt("recipe", "--recipe", path)
    assert ran.code == 2 and said in ran.err and ran.err.count("\n") == 1


def test_a_pipe_that_never_ends(quitmt: Quitmt, folder: Path) -> None:
    os.mkfifo(folder / "pipe.toml")

    def write() -> None:
        with (folder / "pipe.toml").open("wb", buffering=0) as pipe:
            try:
                while True:
                    pipe.write(b"# and so on\n" * 1000)
            except BrokenPipeError:
                return

    writer = threading.Thread(target=write)
    writer.start()
    ran = quitmt("recipe", "--recipe", "pipe.toml")
    writer.join()
    assert ran.code == 2 and "pipe.toml is no recipe: it has more than" in ran.err


def test_a_profile_of_another_recipe(quitmt: Quitmt, folder: Path) -> None:
    pools = [
        {"id": str(n), "candidates": ["a b", "a c", f"b {n}", "a b"], "scores": {"q": [1, 2, 3, n]}} for n in range(8)
    ]
    (folder / "pools.jsonl").write_text("\n".join(map(json.dumps, pools)))
    promise = "-n 4 -k 2 --max-loss 0.1 --risk 0.9 --confidence none -q -o profile.json"
    assert quitmt("calibrate", "pools.jsonl", *promise.split()).code == 0
    (folder / "bad.toml").write_text("[rerank]\nname = 'qe:recorded:q'\n[stop]\nprofile = 'profile.json'\n")
    ran = quitmt("rerank", "pools.jsonl", "--recipe", "bad.toml")
    assert ran.code == 2 and ran.err.count("\n") == 1
    said = "bad.toml, line 2: name is qe:recorded:q, and bad.toml, line 4: profile was made for mbr:chrf"
    assert ran.err.startswith(f"quitmt: {said}")
