# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.fleet_directory import CATALOG, Called, FleetDirectory

Call = Callable[..., Called]


def test_units_that_are_as_they_should_be_are_no_difference(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode") == Called(0, "No unit differs.\n", "")


def test_a_changed_argument_is_shown_line_by_line_for_each_unit(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    directory.catalog(CATALOG.replace("devices: cpu", "devices: cpu, args: [--x]"))
    called = llmgw("diff", "-i", directory.path)
    assert (called.status, called.err) == (0, "")
    lines = called.out.splitlines()
    assert lines[:3] == [
        "! n1: llmgw-chat.0.0.service would be restarted",
        "--- llmgw-chat.0.0.service on the node",
        "+++ llmgw-chat.0.0.service by the catalog",
    ]
    assert sum(line.startswith("+ExecStart=") and line.endswith(" --x") for line in lines) == 2
    assert llmgw("diff", "-i", directory.path, "--detailed-exitcode").status == 2


def test_json_holds_every_unit_with_its_change(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied(1)
    document = json.loads(llmgw("diff", "-i", directory.path, "--json").out)
    assert document["format_version"] == 1
    assert [(one["node"], one["unit"], one["change"]) for one in document["units"]] == [
        ("n2", "llmgw-chat.1.0.service", "created")
    ]
    assert document["units"][0]["diff"][2].startswith("@@")


def test_a_declared_loss_counts_here_too(directory: FleetDirectory, llmgw: Call) -> None:
    directory.applied()
    document = json.loads(llmgw("diff", "-i", directory.path, "--json", "--lost", "n1").out)
    assert [(one["node"], one["unit"]) for one in document["units"]] == [("n2", "llmgw-chat.0.0.service")]
