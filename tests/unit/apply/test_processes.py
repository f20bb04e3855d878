# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

from llmgw.apply.processes import GIVEN_UP_AFTER_S, Process, is_gone, process

HERE = process(os.getpid())


def test_this_process_is_there() -> None:
    assert HERE.pid == os.getpid()
    assert not is_gone(HERE, 0.0, 2 * GIVEN_UP_AFTER_S)


def test_a_process_that_ended_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        there = process(other.pid)
        assert not is_gone(there, 0.0, 1.0)
    assert is_gone(there, 0.0, 1.0)


def test_another_process_with_the_same_id_is_not_taken_for_it() -> None:
    assert HERE.started is not None
    assert is_gone(replace(HERE, started=HERE.started - 1), 0.0, 1.0)


def test_nothing_survives_a_reboot() -> None:
    assert is_gone(replace(HERE, boot_id="another"), 0.0, 1.0)


def test_what_cannot_be_looked_at_from_here_is_given_up_after_a_day() -> None:
    unseen = [Process(), replace(HERE, host="elsewhere"), replace(HERE, namespace=1)]
    for one in [*unseen, *(replace(HERE, pid=pid) for pid in (None, -5, 0, 1, 2**70))]:
        assert not is_gone(one, 0.0, GIVEN_UP_AFTER_S - 1)
        assert is_gone(one, 0.0, GIVEN_UP_AFTER_S + 1)


def test_an_orphan_does_not_name_the_process_that_takes_in_all_orphans() -> None:
    assert process(1).pid is None
