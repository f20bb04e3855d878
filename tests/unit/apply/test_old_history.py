# SPDX-License-Identifier: Apache-2.0
"""What earlier versions wrote into the history is still read (Q6)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from llmgw.apply import history, history_catalogs
from llmgw.catalog.load import load_catalog

STORED = Path(__file__).parents[2] / "fixtures/history"


@pytest.mark.parametrize("path", sorted(STORED.glob("record-format-*.json")), ids=lambda path: path.stem)
def test_records_of_every_format_are_read_with_all_they_say(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "20251130T105320.125Z-7d0c2f11a6b94e35.json")
    found = history.read(tmp_path, 1_764_600_000.0)
    assert found.problems == ()
    (record,) = found.records
    assert (record.id, record.generation, record.outcome) == ("7d0c2f11a6b94e35", 1, "failed")
    assert (record.by, record.command, record.began) == ("ops@ctl1", "apply", 1764500000.125)
    assert [(one.kind, one.replica) for one in record.actions] == [
        ("create", "chat/0"),
        ("create", "chat/1"),
        ("create", "embed/0"),
    ]
    assert record.failure == ("Wave 1 of 2 failed: start chat/0.", "n1: no space left on device")
    assert record.process.pid == 4242


@pytest.mark.parametrize("path", sorted(STORED.glob("catalog-format-*.json")), ids=lambda path: path.stem)
def test_catalogs_of_every_format_can_be_applied_again(path: Path, tmp_path: Path) -> None:
    (tmp_path / "catalogs").mkdir()
    shutil.copy(path, tmp_path / "catalogs" / "abcdef01.json")
    main = history_catalogs.unpack(tmp_path, "sha256:abcdef01", tmp_path / "again")
    services = {one.name: one.replicas for one in load_catalog(main).services}
    assert services == {"chat": 2, "embed": 1}
