"""Requests inside and outside the OpenAPI description never give a 500, a traceback or an undocumented response.

schemathesis generates the cases (``make test-serve``, in its own environment); ``CASES`` sets their number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("schemathesis")
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.serve.conftest import Model, Running, functions, serving

BODIES = 5
"""Number of endpoints with a body, which share the cases; the others have few."""
CASES = int(os.environ.get("CASES", "200"))
SERVED = {"source": "en", "target": "pt", "source_lang": "EN", "target_lang": "PT", "src_lang": "en", "tgt_lang": "pt"}
SERVED |= {"model": "quitmt-en-pt", "max_loss": 0.01, "max_cost": None, "deadline": 4.0, "glossary_id": None}
"""Values that Hypothesis would rarely generate."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    models = (Model(upper=True), Model(upper=False))
    with serving(lambda: functions(models), models) as found:
        yield found


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_no_case_breaks_it(running: Running, mode: str) -> None:
    """Uses Hypothesis directly, because the pytest plug-in needs certain versions."""
    description = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
    checks = [getattr(schemathesis.checks, name) for name in CHECKS]
    seen: Counter[str] = Counter()
    for result in description.get_all_operations():
        operation = result.ok()
        if operation.body:
            count = -(-CASES // (2 * BODIES))
        elif mode == "positive":
            count = 5
        else:
            continue

        @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)), served=st.booleans())
        def check(case: Any, served: bool) -> None:
            if served and mode == "positive" and isinstance(case.body, dict):
                case.body |= {name: value for name, value in SERVED.items() if name in case.body}
            response = case.call(timeout=60)
            case.validate_response(response, checks=checks)
            assert "Traceback" not in response.text
            seen[f"{case.operation.label} {response.status_code}"] += 1

        check()
    print(f"{mode}: {sum(seen.values())} cases: {dict(seen)}")
    assert sum(seen.values()) >= CASES // 2
    running.until(lambda: running.metric("quitmt_requests_in_flight") == 1)
    assert running.metric("quitmt_active_segments") == running.metric("quitmt_waiting_segments") == 0
    assert "internal_error" not in running.log.getvalue() and '"status": 500' not in running.log.getvalue()
