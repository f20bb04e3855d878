# SPDX-License-Identifier: Apache-2.0
"""Golden scenarios: each folder is a fleet to learn from, and what llmgw makes of it.

    catalog.yaml   what is wanted, with the story of the scenario at its top
    hosts.yml      the inventory
    before.yaml    the catalog that was applied before, where there was one
    facts/         what the nodes reported; recipes.py made it
    expected/      plan.txt (as `llmgw plan --all --waves` shows it), routes.json, units/NODE/UNIT (if they are written)

`pytest tests/scenarios --update-golden` rewrites facts/ and expected/.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmgw.apply.inputs import Inputs, find_paths, read_inputs
from llmgw.decide import Decision, decide
from llmgw.fleet.hosts import Host
from llmgw.fleet.inventory import read_inventory
from llmgw.model.plan import StartMembers
from llmgw.plan.text import plan_lines, wave_lines
from tests.scenarios.recipes import RECIPES
from tests.support import golden, verify
from tests.support.scenario_facts import NOW
from tests.support.world import World

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/catalog.yaml"))
each_scenario = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def hosts_of(folder: Path) -> tuple[Host, ...]:
    """The hosts as Ansible reads them; it is asked once for each text, which several scenarios share."""
    path = folder / "hosts.yml"
    text = path.read_text(encoding="utf-8")
    if text not in _HOSTS:
        _HOSTS[text] = read_inventory(path)
    return _HOSTS[text]


_HOSTS: dict[str, tuple[Host, ...]] = {}


@pytest.fixture
def made(folder: Path, *, update_golden: bool) -> dict[str, str]:
    """The facts as their recipe makes them; the folder holds them already when golden files are rewritten."""
    facts = RECIPES[folder.name](hosts_of(folder), folder)
    if update_golden:
        golden.compare(folder / "facts", facts, update=True)
    return facts


@pytest.fixture
def decided(folder: Path, made: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> tuple[Inputs, Decision]:
    """The inputs as the command reads them, and the decision. Paths in messages are relative to the folder."""
    assert made
    hosts = hosts_of(folder)
    monkeypatch.setattr("llmgw.apply.inputs.read_inventory", lambda _path: hosts)
    monkeypatch.chdir(folder)
    inputs = read_inputs(find_paths(Path()), NOW)
    return inputs, decide(inputs.catalog, inputs.fleet)


def routes_document(decision: Decision) -> dict[str, Any]:
    return {
        route.service: {
            "served_name": route.served_name,
            "aliases": list(route.aliases),
            "desired": route.desired,
            "endpoints": {
                endpoint.id: f"{endpoint.address}:{endpoint.port} {endpoint.engine}"
                + (f" on {endpoint.devices} x {endpoint.device_class}" if endpoint.device_class else "")
                for endpoint in route.endpoints
            },
        }
        for route in decision.routes.routes
    }


def written_units(decision: Decision) -> dict[str, str]:
    return {
        f"{unit.node}/{unit.name}": unit.text
        for wave in decision.plan.waves
        for step in wave.steps
        if isinstance(step, StartMembers)
        for unit in step.units
    }


def test_every_scenario_has_a_recipe_and_every_recipe_a_scenario() -> None:
    assert sorted(RECIPES) == [folder.name for folder in FOLDERS]


@each_scenario
def test_facts_are_what_nodes_would_report_now(folder: Path, made: dict[str, str]) -> None:
    golden.compare(folder / "facts", made, update=False)


@each_scenario
def test_the_decision_is_the_golden_one(folder: Path, decided: tuple[Inputs, Decision], *, update_golden: bool) -> None:
    inputs, decision = decided
    problems = [str(problem) for problem in inputs.problems]
    lines = [*problems, *plan_lines(decision.plan, every_action=True), "", *wave_lines(decision.plan)]
    files = {
        "plan.txt": "\n".join(lines).rstrip() + "\n",
        "routes.json": json.dumps(routes_document(decision), indent=2) + "\n",
    }
    files |= {f"units/{name}": text for name, text in written_units(decision).items()}
    golden.compare(folder / "expected", files, update=update_golden)


@each_scenario
def test_carried_out_it_leaves_nothing_to_do(decided: tuple[Inputs, Decision]) -> None:
    inputs, _decision = decided
    world = World(inputs.fleet)
    world.apply(inputs.catalog)
    assert decide(inputs.catalog, world.fleet).plan.waves == ()


@each_scenario
def test_systemd_has_nothing_to_say_about_its_units(decided: tuple[Inputs, Decision], tmp_path: Path) -> None:
    units = {name.partition("/")[2]: text for name, text in written_units(decided[1]).items()}
    if units:
        assert verify.complaints(units, tmp_path) == ""
