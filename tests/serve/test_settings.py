"""Mistakes in a server's settings, recipes and keys are found before it serves anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp")
from quitmt.errors import InputError, QuitmtError, UsageError
from quitmt.serve import keys, running, service
from quitmt.serve.limits import Limits
from quitmt.serve.running import ServeSettings

RECIPE = '[model]\nname = "own_model:sample"\nsource_language = "en"\ntarget_language = "pt"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model and with valid and invalid recipes."""
    (tmp_path / "own_model.py").write_text("def sample(source, start, stop):\n    return [source] * (stop - start)\n")
    for name, text in {
        "my.toml": RECIPE,
        "again.toml": RECIPE,
        "broken.toml": RECIPE.replace("own_model:sample", "bergamot:nowhere"),
        "nowhere.toml": RECIPE.partition("target_language")[0],
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["my.toml", "broken.toml"], "broken.toml cannot be served: bergamot:nowhere"),
        (["my.toml", "again.toml"], "my.toml and again.toml both translate en to pt"),
        (["nowhere.toml"], "is required (a server must know its languages)"),
    ],
)
def test_recipes_that_cannot_be_served(folder: Path, names: list[str], told: str) -> None:
    with pytest.raises(QuitmtError) as caught:
        service.load(names, allow_functions=True)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ServeSettings(port=70000), "the port must be from 0 to 65535, not 70000"),
        (lambda: ServeSettings(drain=-1), "the drain time must be from 0 to 3600 s, not -1"),
        (lambda: Limits(deadline=-1), "the deadline must be above 0 and at most a day, not -1 s"),
        (lambda: Limits(waiting=0), "the limit waiting must be at least 1, not 0"),
        (lambda: running.listen(ServeSettings(host="256.0.0.1")), "cannot listen at 256.0.0.1:8080"),
    ],
)
def test_settings_out_of_range(make: Callable[[], Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make()


def test_keys_come_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUITMT_KEYS", raising=False)
    assert not keys.load(None)
    monkeypatch.setenv("QUITMT_KEYS", " one, two\n")
    assert keys.load(None).accept("two") and not keys.load(None).accept("three") and not keys.load(None).accept("")
    (tmp_path / "keys").write_text("# mine\nthree\n\n  four \n")
    found = keys.load(str(tmp_path / "keys"))
    assert found.accept("three") and found.accept("four") and not found.accept("one") and not found.accept(None)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read the keys in .*: No such file or directory"),
        (b"# none\n", "has no keys"),
        (b"\xff", "cannot read the keys"),
    ],
)
def test_files_without_keys(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        keys.load(str(path))


def test_the_command_says_so(folder: Path, quitmt: Callable[..., Any]) -> None:
    ran = quitmt("serve", "--port", 0, "--recipe", "my.toml", "--recipe", "again.toml", "--allow-functions")
    assert ran.code == 2 and "both translate" in ran.err and "serving" not in ran.err
