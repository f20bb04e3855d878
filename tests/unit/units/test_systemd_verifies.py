# SPDX-License-Identifier: Apache-2.0
"""systemd itself reads every rendered unit without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import verify

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.service"))


def units(*, user: bool) -> dict[str, str]:
    """The golden units of one manager under names of their own."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in GOLDEN}
    return {f"llmgw-{name}.0.0.service": text for name, text in texts.items() if ("User=" not in text) is user}


@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
def test_systemd_has_nothing_to_say_about_any_unit(tmp_path: Path, *, user: bool) -> None:
    found = units(user=user)
    assert found
    assert verify.complaints(found, tmp_path, user=user) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("KillMode=mixed", "KillMode=mixd"),
        ("RestartSec=5", "RestartSecs=5"),
        ("bin/llmgw-sim ", "bin/llmgw-simulator "),
        ("--chat-template ", '--chat-template "'),
    ],
)
def test_it_would_say_when_one_were_wrong(tmp_path: Path, right: str, wrong: str) -> None:
    ((name, text),) = [one for one in units(user=False).items() if "texts-that-need-care" in one[0]]
    assert text.count(right) == 1
    assert verify.complaints({name: text.replace(right, wrong)}, tmp_path) != ""
