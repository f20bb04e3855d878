# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.modules import secret_files
from tests.unit.modules import in_process

Keep = Callable[..., dict[str, Any]]
VALUE = "a value that nobody may see"


@pytest.fixture
def keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Keep:
    def run(secrets: dict[Any, Any], *, check: bool = False) -> dict[str, Any]:
        return in_process.run(secret_files, capsys, check=check, directory=str(tmp_path / "secrets"), secrets=secrets)

    return run


def kept(tmp_path: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}


def test_each_secret_becomes_a_file_that_only_its_owner_can_read(keep: Keep, tmp_path: Path) -> None:
    answer = keep({"key": VALUE, "token.2": "two\nlines\n"})
    assert (answer["changed"], answer["written"]) == (True, ["key", "token.2"])
    assert kept(tmp_path) == {"key": VALUE, "token.2": "two\nlines"}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "secrets/key").stat().st_mode & 0o777 == 0o600
    again = keep({"key": VALUE, "token.2": "two\nlines\n"})
    assert (again["changed"], again["written"], again["removed"]) == (False, [], [])


def test_a_secret_that_is_not_named_any_more_is_gone_and_so_is_what_else_lies_there(keep: Keep, tmp_path: Path) -> None:
    keep({"key": VALUE, "old": "older"})
    (tmp_path / "secrets/.key.half").write_text("half")
    answer = keep({"key": "another value"})
    assert (answer["written"], answer["removed"]) == (["key"], [".key.half", "old"])
    assert kept(tmp_path) == {"key": "another value"}
    assert keep({})["removed"] == ["key"]
    assert kept(tmp_path) == {}
    assert keep({})["changed"] is False


def test_no_secret_and_no_folder_is_no_change(keep: Keep, tmp_path: Path) -> None:
    assert keep({})["changed"] is False
    assert not (tmp_path / "secrets").exists()


def test_a_file_or_a_folder_that_others_can_read_is_closed(keep: Keep, tmp_path: Path) -> None:
    keep({"key": VALUE})
    (tmp_path / "secrets/key").chmod(0o644)
    (tmp_path / "secrets").chmod(0o755)
    assert keep({"key": VALUE})["written"] == ["key"]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "secrets/key").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_taken_from_it(keep: Keep, tmp_path: Path) -> None:
    keep({"key": VALUE})
    for path in (tmp_path / "secrets", tmp_path / "secrets/key"):
        os.chown(path, 12345, 12345)
    assert keep({"key": VALUE})["written"] == ["key"]
    assert {path.stat().st_uid for path in (tmp_path / "secrets", tmp_path / "secrets/key")} == {0}


def test_a_link_is_replaced_and_what_it_leads_to_stays(keep: Keep, tmp_path: Path) -> None:
    keep({"key": VALUE})
    (tmp_path / "elsewhere").write_text(VALUE)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "secrets/key").unlink()
    (tmp_path / "secrets/key").symlink_to(tmp_path / "elsewhere")
    assert keep({"key": VALUE})["changed"] is True
    assert not (tmp_path / "secrets/key").is_symlink()


def test_check_mode_promises_the_same_and_touches_nothing(keep: Keep, tmp_path: Path) -> None:
    keep({"key": VALUE, "old": "older"})
    promised = keep({"key": "another value"}, check=True)
    assert kept(tmp_path) == {"key": VALUE, "old": "older"}
    assert keep({"key": "another value"}) == promised


def test_what_it_returns_names_secrets_and_tells_none(keep: Keep) -> None:
    keep({"key": VALUE})
    answer = keep({"key": f"{VALUE} any more", "more": VALUE})
    assert VALUE not in json.dumps(answer)
    assert "secrets/key holds a value" in answer["diff"]["before"]
    assert "secrets/key holds another value" in answer["diff"]["after"]


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ({VALUE: "a name"}, "of 27 characters, is none"),
        ({"Key": VALUE}, "of 3 characters, is none"),
        ({"../key": VALUE}, "of 6 characters, is none"),
        ({"key": ["a value", VALUE]}, "key is not text: put its value in quotes"),
        ({"key": 12345678}, "key is not text: put its value in quotes"),
        ({"key": " \n"}, "key is empty"),
        ({"key": f"{VALUE}\0"}, "zero byte"),
    ],
)
def test_a_mistake_is_told_by_name_and_nothing_is_written(
    secrets: dict[Any, Any], said: str, keep: Keep, tmp_path: Path
) -> None:
    answer = keep(secrets)
    assert answer["failed"] is True
    assert said in answer["msg"]
    assert VALUE not in json.dumps(answer)
    assert not (tmp_path / "secrets").exists()
