# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.fleet_directory import Called, FleetDirectory

Call = Callable[..., Called]
VAULTED = "$ANSIBLE_VAULT;1.1;AES256\n6162\n"


def test_a_run_that_does_not_begin_says_why(directory: FleetDirectory, llmgw: Call) -> None:
    (directory.path / "group_vars").mkdir()
    (directory.path / "group_vars" / "all.yml").write_text(VAULTED)
    called = llmgw("apply", "-i", directory.path)
    assert called.status == 1
    assert "Ansible ended with status 4" in called.err


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("n11", ["the inventory has no host or group n11; nothing was begun", "did you mean n1"]),
        ("n1x,Fleetx", ["the inventory has no host or group n1x;"]),
        ("zzz", ["no host or group zzz;", "there are fleet, gateway, gw, n1, n2"]),
        ("n1,!n1", ["--limit n1,!n1 leaves no host of the fleet; nothing was begun"]),
    ],
)
def test_a_limit_that_leaves_no_host_names_those_that_may_be_meant(
    directory: FleetDirectory, llmgw: Call, limit: str, said: list[str]
) -> None:
    called = llmgw("apply", "-i", directory.path, "--limit", limit)
    assert called.status == 1
    for words in said:
        assert words in called.err
    assert "Ansible" not in called.err


@pytest.mark.parametrize(("text", "said"), [(VAULTED, "vault"), ("a: b: c\n", "YAML")])
def test_variables_that_cannot_be_read_are_named(directory: FleetDirectory, llmgw: Call, text: str, said: str) -> None:
    (directory.path / "group_vars").mkdir()
    (directory.path / "group_vars" / "all.yml").write_text(text)
    called = llmgw("apply", "-i", directory.path)
    assert called.status == 1
    assert said in called.err


def test_an_apply_that_reaches_nobody_is_no_success(directory: FleetDirectory, llmgw: Call) -> None:
    # A closed port of this machine refuses at once.
    (directory.path / "hosts.yml").write_text(
        "all:\n  vars: {ansible_host: 127.0.0.1, ansible_port: 1}\n  children: {fleet: {hosts: {n1: }}}\n"
    )
    called = llmgw("apply", "-i", directory.path)
    assert "n1  does not answer" in called.out
    assert called.status == 1
    assert "No host answered" in called.err
