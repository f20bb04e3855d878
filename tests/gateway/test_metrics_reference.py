# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.gateway.client import CHAT, asking
from tests.gateway.conftest import MakeEngine
from tests.gateway.harness import RunningGateway, endpoint, fetch, route
from tests.gateway.test_admin import FLEET
from tests.gateway.test_failing_engines import SELDOM, closes

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
HEAD = """\
# Metrics

One scrape of a gateway's admin listener, `/metrics`, tells of its traffic and of the whole fleet as it was last
published. What is unknown has no series; series of what is gone disappear. This page is written from a running gateway
by `pytest tests/gateway/test_metrics_reference.py --update-golden`.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def test_the_page_of_metrics_is_what_a_running_gateway_exports(
    gateway: RunningGateway, engine: MakeEngine, pytestconfig: pytest.Config
) -> None:
    everything = FLEET | {"nodes": [FLEET["nodes"][0] | {"memory_available_bytes": 1}]}
    endpoints = [endpoint(engine(answer=closes), 0), endpoint(engine(), 1)]
    gateway.publish([route(endpoints, policy="round-robin")], fleet=everything, gateway=SELDOM)
    for _number in range(2):
        assert fetch(gateway.url + CHAT, "POST", asking(stream=True))[0] == 200
    assert fetch(gateway.url + CHAT, "POST", asking("nobody"))[0] == 404
    _status, _headers, body = fetch(gateway.admin_url + "/metrics")
    text = body.decode()
    kinds = dict(re.findall(r"^# TYPE (llmgw_\w+) (\w+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, block in re.findall(
        r"^(llmgw_\w+?)(?:_bucket|_sum|_count|_created)?(?:\{(.*)\})? \S+$", text, re.MULTILINE
    ):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', block))
    rows = [
        f"| `{name}` | {kinds[name]} | {', '.join(sorted(labels.get(name, set()) - {'le'})) or '-'} | {meaning} |\n"
        for name, meaning in sorted(re.findall(r"^# HELP (llmgw_\w+) (.*)$", text, re.MULTILINE))
        if not name.endswith("_created")
    ]
    page = HEAD + "".join(rows)
    # What follows on the page is of other programs.
    before, mark, others = PAGE.read_text(encoding="utf-8").partition("\n## ")
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(page + mark + others, encoding="utf-8")
    else:
        assert before == page
