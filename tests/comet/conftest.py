"""The tests here need an environment with unbabel-comet: `make test-comet`. Elsewhere they are not collected."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("comet") is None:
    collect_ignore_glob = ["test_*.py"]
