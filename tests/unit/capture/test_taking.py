# SPDX-License-Identifier: Apache-2.0
"""Taking a capture ends, whatever the machine does to the process that reads it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.capture import taking
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import Options
from tests.support.fake_host import FakeHost


class Deadly(FakeHost):
    """A machine on which looking at the state directory ends the process that looks."""

    def list(self, path: str) -> tuple[str, ...] | None:
        if path == "/var/lib/llmgw":
            os._exit(9)
        return super().list(path)


def test_a_machine_that_ends_its_reader_is_an_error_and_not_the_end_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not be read to the end"):
        taking.write(Deadly(), Options(), str(tmp_path / "n1.tar.gz"), "n1", None)
    assert list(tmp_path.iterdir()) == []
