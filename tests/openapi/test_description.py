"""Whatever the OpenAPI description allows, and what it does not: no 500, no traceback, no undocumented answer.

Cases are made by schemathesis (``make test-serve``, in an environment of its own); ``CASES`` says how many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("schemathesis")
import schemathesis
from hypothesis import HealthCheck, settings

from tests.serve.conftest import Model, Running, functions, serving

BODIES = 5
"""Endpoints that take a body, among which the cases are shared; the others have hardly any."""
CASES = int(os.environ.get("CASES", "200"))
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


@pytest.fixture(scope="module")
def description(running: Running) -> Any:
    return schemathesis.openapi.from_url(f"{running.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("description")


@schema.parametrize()
@settings(
    max_examples=-(-CASES // BODIES),
    deadline=None,
    derandomize=False,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_case_breaks_it(case: Any) -> None:
    response = case.call(timeout=60)
    case.validate_response(response, checks=[getattr(schemathesis.checks, name) for name in CHECKS])
    assert "Traceback" not in response.text
    seen[case.operation.path] = seen.get(case.operation.path, 0) + 1


seen: dict[str, int] = {}


def test_afterwards_nothing_is_left(running: Running) -> None:
    print("cases:", sum(seen.values()), seen)
    running.until(lambda: running.metric("quitmt_requests_in_flight") == 1)
    assert running.metric("quitmt_active_segments") == running.metric("quitmt_waiting_segments") == 0
    assert "internal_error" not in running.log.getvalue()
    assert '"status": 500' not in running.log.getvalue()
