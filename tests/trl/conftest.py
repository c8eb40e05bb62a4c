"""Only where TRL is installed, which is an environment of its own: ``make test-trl``."""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
collect_ignore_glob = [] if importlib.util.find_spec("trl") else ["test_*.py"]
