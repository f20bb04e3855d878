# SPDX-License-Identifier: Apache-2.0
"""Why a host did not do what it was asked to."""

from __future__ import annotations

import pytest

from llmgw.apply.reasons import failure_reason, silence_reason


@pytest.mark.parametrize(
    "said",
    [
        "[Errno 13] Permission denied: '/etc/systemd/system/llmgw-chat.0.0.service'",
        "systemctl daemon-reload: Interactive authentication required.",
        "Failed to start x.service: Access denied",
    ],
)
def test_a_user_who_may_not_is_told_with_what_to_set(said: str) -> None:
    reason = failure_reason({"failed": True, "msg": said})
    assert reason.startswith(said)
    assert "set ansible_become of the host to true" in reason
    assert "ansible_become" in failure_reason({"msg": "no JSON", "module_stderr": f"Traceback\n{said}"})


def test_a_login_that_is_refused_is_told_apart_from_a_host_that_is_not_there() -> None:
    refused = "Failed to connect to the host via ssh: root@10.0.0.1: Permission denied (publickey,password).\nmore"
    reason = silence_reason({"unreachable": True, "msg": refused})
    assert reason.startswith("Failed to connect to the host via ssh: root@10.0.0.1: Permission denied")
    assert "see ansible_user of the host, and the ssh key" in reason
    assert "ansible_become" not in reason
    assert silence_reason({"msg": "Connection timed out\nx"}) == "Connection timed out"
    assert silence_reason({}) == "no reason given"
    silent = 'Task failed: Data could not be sent to remote host "10.0.0.4". Make sure it can be reached over ssh: '
    assert silence_reason({"msg": silent}) == (
        'Data could not be sent to remote host "10.0.0.4". Make sure it can be reached over ssh'
    )


@pytest.mark.parametrize("said", ["Missing sudo password", "sudo: a password is required"])
def test_a_sudo_that_asks_for_a_password_is_told_with_what_to_set(said: str) -> None:
    assert "ansible_become_password" in failure_reason({"msg": said})
    assert "ansible_become_password" in failure_reason({"msg": "no JSON", "module_stdout": said})


def test_what_is_not_known_is_told_as_it_is() -> None:
    assert failure_reason({"msg": "chat/0 was not ready in 60 s"}) == "chat/0 was not ready in 60 s"


def test_a_host_that_hangs_is_told_with_how_long_it_was_waited_for() -> None:
    assert failure_reason({"failed": True, "msg": "Timed out", "timedout": {"period": 120}}) == "no answer within 120 s"
    assert failure_reason({"failed": True, "msg": "Timed out", "timedout": True}) == "no answer in time"
