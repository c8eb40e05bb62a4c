"""The tests here need an environment with unbabel-comet: `make test-comet`. Elsewhere they are not collected."""

from __future__ import annotations

from importlib import metadata

try:
    metadata.version("unbabel-comet")
except metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
