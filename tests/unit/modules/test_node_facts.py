# SPDX-License-Identifier: Apache-2.0
"""The module node_facts as Ansible runs it, on machines whose cards are a script."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import machines, smi_texts
from tests.support.smi_texts import card, document, mig_uuid, uuid

ROOT = Path(__file__).resolve().parents[3]
COLLECTIONS = ROOT / "collections"
FAKE = ROOT / "tests/fixtures/nvidia-smi"
LOST = "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error\n"
CAPABILITY = "--query-gpu=uuid,compute_cap_--format=csv,noheader"
Discover = Callable[..., dict[str, Any]]


@pytest.fixture
def discover(tmp_path: Path) -> Discover:
    """Runs the module by `ansible localhost`; the answers of nvidia-smi are given by its arguments."""
    programs = tmp_path / "bin"
    programs.mkdir()

    def run(answers: Mapping[str, str] | None = None, *flags: str, **options: object) -> dict[str, Any]:
        if answers is not None:
            shutil.copy(FAKE, programs / "nvidia-smi")
        for arguments, text in (answers or {}).items():
            (tmp_path / arguments).write_text(text, encoding="utf-8")
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
            "ANSIBLE_LOCALHOST_WARNING": "0",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "0",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
            "FAKE_NVIDIA_SMI": str(tmp_path),
            "HOME": str(tmp_path),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }
        argv = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", "llmgw.fleet.node_facts", *flags]
        argv += [
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            *(["-a", json.dumps(options)] if options else []),
        ]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        answer = json.loads(done.stdout[done.stdout.index("{") :])
        assert answer["changed"] is False
        facts: dict[str, Any] = answer["ansible_facts"]["llmgw"]
        return facts

    return run


def codes(facts: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Findings that take a card out."""
    return [(one["code"], one["severity"], one["subject"]) for one in facts["findings"] if one["severity"] == "block"]


def test_a_machine_with_eight_cards_reports_eight_of_one_class(discover: Discover) -> None:
    answers = {
        "-q_-x": document(*(card(number) for number in range(8))),
        CAPABILITY: "".join(f"{uuid(number)}, 9.0\n" for number in range(8)),
    }
    facts = discover(answers)
    assert [(one["index"], one["uuid"], one["device_class"], one["compute_capability"]) for one in facts["gpus"]] == [
        (number, uuid(number), "h100-80g", "9.0") for number in range(8)
    ]
    driver = facts["driver"]
    assert (driver["source"], driver["driver_version"], driver["cuda_version"]) == ("nvidia-smi", "570.86.15", "12.8")
    assert driver["fallback_reason"]
    assert codes(facts) == []


def test_with_nvidia_ml_py_the_same_machine_is_read_through_nvml(
    discover: Discover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "pynvml.py").write_text(machines.pynvml(machines.HGX_H100, str(ROOT)), encoding="utf-8")
    answers = machines.answers(machines.HGX_H100)
    by_tool = discover(answers)
    monkeypatch.setenv("PYTHONPATH", str(library))
    by_library = discover(answers)
    assert (by_tool["driver"]["source"], by_library["driver"]["source"]) == ("nvidia-smi", "nvml")
    assert by_library["gpus"] == by_tool["gpus"]
    assert by_library["driver"]["fallback_reason"] is None


def test_cards_in_mig_mode_report_their_instances(discover: Discover) -> None:
    a100 = {"name": "NVIDIA A100-SXM4-80GB", "total": "81920 MiB", "mig": ("Enabled", "Enabled")}
    busy = smi_texts.process(os.getpid(), "train.py", "1000 MiB", place=("2", "0"))
    answers = {
        "-q_-x": document(
            card(0, **a100, instances=[smi_texts.instance(0, 1), smi_texts.instance(1, 2)], processes=[busy]),  # type: ignore[arg-type]
            card(1, **a100),  # type: ignore[arg-type]
        ),
        "-L": f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {uuid(0)})\n"
        f"  MIG 3g.40gb     Device  0: (UUID: {mig_uuid(0)})\n"
        f"  MIG 4g.40gb     Device  1: (UUID: {mig_uuid(1)})\n"
        f"GPU 1: NVIDIA A100-SXM4-80GB (UUID: {uuid(1)})\n",
    }
    facts = discover(answers)
    carved, bare = facts["gpus"]
    assert [(one["uuid"], one["device_class"], one["memory_total_mib"]) for one in carved["mig_instances"]] == [
        (mig_uuid(0), "a100-80g-mig-3g.40gb", 40192),
        (mig_uuid(1), "a100-80g-mig-4g.40gb", 40192),
    ]
    assert carved["compute_capability"] is None
    assert bare["mig_instances"] == []
    assert codes(facts) == [("foreign-memory", "block", mig_uuid(1)), ("mig-empty", "block", uuid(1))]


def test_one_broken_card_costs_itself_alone(discover: Discover) -> None:
    broken = "<dram_correctable>0</dram_correctable><dram_uncorrectable>4</dram_uncorrectable>"
    facts = discover({"-q_-x": LOST + document(card(0), card(2, volatile=broken))})
    assert [(one["index"], one["uuid"]) for one in facts["gpus"]] == [(0, uuid(0)), (1, None), (2, uuid(2))]
    assert codes(facts) == [("gpu-lost", "block", "0000:11:00.0"), ("ecc-uncorrected", "block", uuid(2))]


def test_a_machine_without_cards_reports_what_else_it_is_also_in_check_mode(discover: Discover, tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (models / "tiny.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    facts = discover(None, "--check", model_dirs=[str(models), "/no/such/directory"], state_dir=str(tmp_path / "state"))
    assert facts["gpus"] == []
    assert [one["model"] for one in facts["weights"]] == ["tiny.gguf"]
    assert facts["memory"]["total_bytes"] > 0
    assert facts["cpu"]["threads"] > 0
    assert facts["system"]["kernel"] == os.uname().release
    assert "/" in [one["mount_point"] for one in facts["filesystems"]]
    assert facts["gateway"] is None
    assert facts["imex"] is None
