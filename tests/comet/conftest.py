"""The tests here need an environment with unbabel-comet: `make test-comet`. Elsewhere they are not collected."""

from __future__ import annotations

import os
from importlib import metadata

# Before torch is imported: on busy cores, its threads would mostly spin and wait for each other.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

try:
    metadata.version("unbabel-comet")
except metadata.PackageNotFoundError:
    collect_ignore_glob = ["test_*.py"]
