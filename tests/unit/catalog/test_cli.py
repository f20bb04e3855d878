# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from llmgw.catalog.jsonschema import json_schema
from llmgw.catalog.load import load_catalog
from llmgw.catalog.reference import EXAMPLE, reference
from llmgw.cli.main import run

BROKEN = EXAMPLE.replace("replicas: 2", "replicas: two").replace("model: smollm2", "model: smollm")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("LLMGW_CATALOG", "LLMGW_INVENTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/catalog.yaml").write_text(EXAMPLE, encoding="utf-8")
    return tmp_path / "inventory"


def test_check_counts_what_is_sound(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "check", str(fleet)]) == 0
    assert capsys.readouterr() == ("ok: 1 service, 2 replicas, 1 profile, 1 file\n", "")


def test_a_catalog_is_named_by_its_path_or_as_other_commands_have_it(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (fleet / "catalog.yaml").rename(fleet / "other.yaml")
    other = str(fleet / "other.yaml")
    for arguments in ([other], ["--catalog", other]):
        assert run(["catalog", "check", *arguments]) == 0
        assert run(["catalog", "show", *arguments]) == 0
    assert run(["catalog", "check", other, "--catalog", other]) == 64
    monkeypatch.setenv("LLMGW_CATALOG", str(fleet / "nowhere.yaml"))
    assert run(["catalog", "check", other]) == 0
    assert run(["catalog", "check", "--catalog", other]) == 0
    capsys.readouterr()
    assert run(["catalog", "check"]) == 1
    assert "nowhere.yaml" in capsys.readouterr().err


def test_check_tells_every_mistake_on_stderr(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "catalog.yaml").write_text(BROKEN, encoding="utf-8")
    assert run(["catalog", "check"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(" ")[0] for line in err.splitlines() if not line.startswith(" ")] == [
        "inventory/catalog.yaml:10:12:",
        "inventory/catalog.yaml:18:15:",
        "2",
    ]
    assert err.endswith("\n2 errors\n")


def test_check_tells_programs_in_json(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "check", "--json"]) == 0
    sound = json.loads(capsys.readouterr().out)
    assert (sound["format_version"], sound["ok"], sound["services"], sound["errors"]) == (1, True, 1, [])
    assert sound["digest"] == load_catalog(fleet).digest
    (fleet / "catalog.yaml").write_text(BROKEN, encoding="utf-8")
    assert run(["catalog", "check", "--json"]) == 1
    out, err = capsys.readouterr()
    broken = json.loads(out)
    assert (broken["format_version"], broken["ok"], err) == (1, False, "")
    assert broken["errors"][0]["where"] == {"path": "inventory/catalog.yaml", "line": 10, "column": 12}
    assert set(broken["errors"][0]) == {"code", "where", "why", "fix"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["inventory"],
        ["inventory/catalog.yaml"],
        ["-i", "inventory"],
        ["-i", "inventory/hosts.yml"],
        [],
    ],
)
def test_the_catalog_is_found_by_path_or_inventory(fleet: Path, arguments: list[str]) -> None:
    del fleet
    assert run(["catalog", "check", *arguments]) == 0


def test_show_prints_what_the_catalog_means(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = json.loads(json.dumps(asdict(load_catalog(fleet))))
    assert run(["catalog", "show"]) == 0
    assert YAML(typ="safe", pure=True).load(capsys.readouterr().out) == expected
    assert run(["catalog", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["catalog"] == expected


def test_show_names_the_origin_of_every_value(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (fleet / "less.yaml").write_text("services: {chat: {replicas: 1}}\n", encoding="utf-8")
    assert run(["catalog", "show", "--origins", "--overlay", str(fleet / "less.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'services.chat.spread: "node"  # inventory/catalog.yaml:19:13' in lines
    assert f"services.chat.replicas: 1  # {fleet}/less.yaml:1:29" in lines
    assert len(lines) == 10


def test_schema_prints_what_editors_and_readers_need(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["catalog", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()
    assert run(["catalog", "schema", "--markdown"]) == 0
    assert capsys.readouterr().out == reference()


@pytest.mark.parametrize("arguments", [["check", "--bogus"], ["show", "--origins", "--json"], ["nothing"], []])
def test_a_wrong_call_is_no_failed_check(fleet: Path, arguments: list[str]) -> None:
    del fleet
    assert run(["catalog", *arguments]) == 64
