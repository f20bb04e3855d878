# SPDX-License-Identifier: Apache-2.0
"""systemd itself reads every rendered unit without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import verify
from tests.unit.units.unit_cases import cases

NEWER = ("RestartSteps=", "RestartMaxDelaySec=")
"""What the systemd of a machine that runs tests need not have."""


def units(*, user: bool) -> dict[str, str]:
    """The golden units of one manager under names of their own."""
    texts = {name: case.unit.text for name, case in cases().items() if ("user" in name.split("-")) is user}
    return {f"llmgw-{name}.0.0.service": _for_this_systemd(text) for name, text in texts.items()}


def _for_this_systemd(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(NEWER))


@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
def test_systemd_has_nothing_to_say_about_any_unit(tmp_path: Path, *, user: bool) -> None:
    found = units(user=user)
    assert len(found) >= (3 if user else 30)
    assert verify.complaints(found, tmp_path, user=user) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("KillMode=mixed", "KillMode=mixd"),
        ("RestartSec=5", "RestartSecs=5"),
        ("bin/llmgw-sim ", "bin/llmgw-simulator "),
        ("--chat-template ", '--chat-template "'),
        ("ProtectSystem=strict", "ProtectSystem=strictly"),
        ("@raw-io", "@raw_io"),
    ],
)
def test_it_would_say_when_one_were_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    ((name, text),) = [one for one in units(user=False).items() if "texts-that-need-care" in one[0]]
    assert text.count(right) == 1
    assert verify.complaints({name: text.replace(right, wrong)}, tmp_path) != ""
