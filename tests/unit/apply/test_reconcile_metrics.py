# SPDX-License-Identifier: Apache-2.0
"""The page of metrics, and the example alerts of the how-to, are those of the continuous mode."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from ruamel.yaml import YAML

from llmgw.apply.reconcile_metrics import registry
from tests.support.reconciling import Bench

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "metrics.md"
HOW_TO = DOCS / "how-to" / "run-a-controller.md"
MARK = "\n## Continuous mode\n"
HEAD = """
[`llmgw reconcile`](../how-to/run-a-controller.md#let-it-mend) tells of its rounds, in a file (`--metrics-file`) or
over HTTP (`--metrics-listen`). A round that could not read the catalog, or any host, has no series of what it could not
find.

| metric | type | labels | meaning |
|---|---|---|---|
"""


@pytest.fixture
def exported(tmp_path: Path) -> str:
    """Everything that a round tells of which all is known."""
    bench = Bench(tmp_path / "facts")
    bench.round()
    return generate_latest(registry(bench.loop.collector)).decode()


def test_the_page_of_metrics_is_what_a_round_exports(exported: str, pytestconfig: pytest.Config) -> None:
    kinds = dict(re.findall(r"^# TYPE (llmgw_\w+) (\w+)$", exported, re.MULTILINE))
    labels = dict(re.findall(r'^(llmgw_\w+)\{(\w+)="', exported, re.MULTILINE))
    rows = [
        f"| `{name}` | {kinds[name]} | {labels.get(name, '-')} | {meaning} |\n"
        for name, meaning in sorted(re.findall(r"^# HELP (llmgw_\w+) (.*)$", exported, re.MULTILINE))
        if not name.endswith("_created")
    ]
    gateway, mark, ours = PAGE.read_text(encoding="utf-8").partition(MARK)
    wanted = HEAD + "".join(rows)
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(gateway + MARK + wanted, encoding="utf-8")
    else:
        assert mark + ours == MARK + wanted


def alert_rules() -> str:
    """The example of the how-to, as a file of rules."""
    (block,) = re.findall(r"```yaml\n(groups:\n.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    return str(block)


def test_example_alerts_are_rules_and_name_only_metrics_that_are_exported(exported: str) -> None:
    (group,) = YAML(typ="safe").load(alert_rules())["groups"]
    assert len(group["rules"]) == 3
    series = set(re.findall(r"^(llmgw_\w+)(?:\{|\s)", exported, re.MULTILINE))
    for rule in group["rules"]:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        named = set(re.findall(r"llmgw_\w+", rule["expr"]))
        assert named
        assert named <= series
        assert rule["expr"].count("(") == rule["expr"].count(")")
        for label, values in re.findall(r'(\w+)(?:!?=|[!=]~)"([^"]*)"', rule["expr"]):
            assert all(f'{label}="{value}"' in exported for value in values.split("|"))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_example_alerts_pass_the_check_of_prometheus(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(alert_rules())
    command = ["promtool", "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
