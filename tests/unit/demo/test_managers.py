# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from llmgw.demo.managers import Machine, Manager, ManagerKind, choose
from llmgw.errors import LlmgwError


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (Machine(root=True, booted_by_systemd=True, user_manager_answers=False), ManagerKind.SYSTEM),
        (Machine(root=False, booted_by_systemd=True, user_manager_answers=True), ManagerKind.USER),
        (Machine(root=False, booted_by_systemd=False, user_manager_answers=True), ManagerKind.USER),
        (Machine(root=True, booted_by_systemd=False, user_manager_answers=False), ManagerKind.PRIVATE),
        (
            Machine(root=True, booted_by_systemd=True, user_manager_answers=False, missing=("unshare",)),
            ManagerKind.SYSTEM,
        ),
    ],
)
def test_the_machines_own_manager_comes_before_one_of_our_own(machine: Machine, kind: ManagerKind) -> None:
    assert choose(machine) is kind


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine(root=False, booted_by_systemd=True, user_manager_answers=False), "enable-linger"),
        (Machine(root=False, booted_by_systemd=False, user_manager_answers=False), "run the demo as root"),
        (
            Machine(root=True, booted_by_systemd=False, user_manager_answers=False, missing=("unshare", "systemd")),
            "apt-get install",
        ),
    ],
)
def test_a_machine_without_a_usable_manager_is_told_what_to_do(machine: Machine, words: str) -> None:
    with pytest.raises(LlmgwError) as refused:
        choose(machine)
    assert refused.value.code == "no-systemd-manager"
    assert words in str(refused.value.fix)


def test_closing_ends_only_what_was_started() -> None:
    Manager(ManagerKind.SYSTEM).close()
    closed: list[bool] = []
    Manager(ManagerKind.PRIVATE, on_close=lambda: closed.append(True)).close()
    assert closed == [True]


def test_a_private_manager_is_a_users_manager_to_modules_and_units() -> None:
    assert Manager(ManagerKind.PRIVATE).scope == "user"
    assert Manager(ManagerKind.SYSTEM).scope == "system"
