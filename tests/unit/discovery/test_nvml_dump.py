# SPDX-License-Identifier: Apache-2.0
"""What is asked of NVML: every call may be missing or fail and costs its own reading, a lost card costs itself."""

from __future__ import annotations

import ctypes
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import nvml, nvml_dump
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support import fake_pynvml
from tests.support.fake_pynvml import FakePynvml
from tests.support.fake_pynvml_machine import Card, Fabric, Instance, Link, Machine, Process

SOURCE = inspect.getsource(nvml_dump)
ASKED = sorted(
    {*re.findall(r'"(nvml\w+|c_nvml\w+)"', SOURCE), *(f"{name}_v2" for name in nvml_dump._PROCESSES.values())}
)
FUNCTIONS = [name for name in ASKED if name.startswith("nvml") and name != "nvmlMemory_v2"]
MIG = Card(
    0,
    name="NVIDIA A100-SXM4-80GB",
    mig=(True, True),
    instances=(Instance(0, (1, 0)), Instance(3, (9, 0), "3g.40gb", 40192)),
    processes=(Process(5, place=(9, 0)),),
)
WHOLE = Card(1, fabric=Fabric(cluster="0a0b0c0d-0102-0304-0506-0708090a0b0c", clique=7, mask=2, summary=1))
LINKED = Card(2, links=(Link(card=1), Link(active=False)), cpus=(0, 1, 64), nodes=(1,), own_node=4)
MACHINE = Machine((MIG, WHOLE, LINKED))
NEEDED = {"nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"}
NEWER = (
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuFabricInfo_v4",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlSystemGetCudaDriverVersion",
)
# Calls about cards and instances alike, or of several things.
SEVERAL = {
    "nvmlDeviceGetUUID": {"uuid", "mig_devices"},
    "nvmlDeviceGetName": {"name", "mig_devices"},
    "nvmlDeviceGetMemoryInfo": {"memory", "mig_devices"},
    "nvmlMemory_v2": {"memory", "mig_devices"},
    "nvmlDeviceGetMigMode": {"mig_mode", "mig_devices"},
    "nvmlDeviceGetFieldValues": {"fields", "links"},
    **{name: {"processes", "mig_devices", "process_names"} for name in nvml_dump._PROCESSES.values()},
}


def dumped(machine: Machine = MACHINE, **library: Any) -> dict[str, Any]:
    document = nvml_dump.dump(FakePynvml(machine, **library))
    assert json.loads(json.dumps(document)) == document, "the document is JSON"
    return document


def report(document: dict[str, Any]) -> nvml.Report:
    found = nvml.read(json.dumps(document))
    assert isinstance(found, nvml.Report)
    return found


def differences(before: Any, after: Any, path: str = "") -> set[str]:
    """Paths of what is not the same in two documents, in their deepest common place."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return {found for key in before for found in differences(before[key], after[key], f"{path}/{key}")}
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return {found for at, (one, two) in enumerate(pairs) for found in differences(one, two, f"{path}/{at}")}
    return set() if before == after else {path}


def test_the_whole_surface_is_asked_for() -> None:
    newest, oldest = FakePynvml(MACHINE), FakePynvml(MACHINE, unknown=NEWER)
    nvml_dump.dump(newest)
    nvml_dump.dump(oldest)
    assert {*newest.calls, *oldest.calls} == set(FUNCTIONS) & set(dir(FakePynvml))


@pytest.mark.parametrize("name", [name for name in ASKED if name not in NEEDED])
def test_what_an_old_library_or_driver_lacks_costs_that_reading_alone(name: str) -> None:
    whole = dumped()
    for document in (dumped(without=[name]), *([dumped(unknown=[name])] if name in FUNCTIONS else [])):
        assert all(card["handle"] and card["errors"] == {} for card in document["cards"])
        readings = {re.sub(r"^/cards/\d", "", place).split("/")[1] for place in differences(whole, document)}
        assert readings <= SEVERAL.get(name, readings)
        assert len(readings) <= len(SEVERAL.get(name, " "))
        assert len(report(document).gpus) == 3


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in NEEDED])
def test_a_call_that_fails_is_named_with_its_error(name: str) -> None:
    library = FakePynvml(MACHINE, failing={name: 999})
    document = nvml_dump.dump(library)
    cards = document["cards"]
    errors = [of["errors"] for of in (document, *cards, *(one for card in cards for one in card["mig_devices"] or ()))]
    assert {error for of in errors for error in of.items()} == ({(name, 999)} if name in library.calls else set())
    assert len(report(document).gpus) == 3


def test_a_reading_that_the_card_does_not_have_is_null_and_no_error() -> None:
    bare = Card(0, total_mib=None, utilization=None, ecc=None, volatile=None, rows=None, mig=None, processes=None)
    (card,) = dumped(Machine((bare,)))["cards"]
    assert card["errors"] == {}
    assert card["memory"] == {"total": None, "reserved": None, "used": None}
    assert (card["utilization"], card["mig_mode"], card["mig_devices"]) == (None, None, [])
    assert card["processes"] == {"C": None, "G": None, "M": None}


def test_a_card_that_is_lost_on_the_way_is_not_asked_further_and_is_still_named() -> None:
    library = FakePynvml(Machine((Card(0, lost_later=True), Card(1))))
    lost, well = nvml_dump.dump(library)["cards"]
    assert (lost["lost"], lost["uuid"], lost["pci"]) == (True, Card(0).uuid, Card(0).bus_id)
    assert (well["lost"], well["temperature"]) == (False, 31)
    assert library.calls.count("nvmlDeviceGetTemperatureV") == 1


def test_a_card_without_a_handle_costs_that_card_alone() -> None:
    first, second = dumped(Machine((Card(0, lost=15), Card(1))))["cards"]
    assert first == {"index": 0, "handle": False, "lost": True, "errors": {"nvmlDeviceGetHandleByIndex": 15}}
    assert second["uuid"] == Card(1).uuid


def test_an_exception_of_the_library_itself_is_noted_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_self: FakePynvml, _handle: object) -> str:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    monkeypatch.setattr(FakePynvml, "nvmlDeviceGetSerial", broken)
    card = dumped()["cards"][0]
    assert card["serial"] is None
    assert "UnicodeDecodeError" in card["errors"]["nvmlDeviceGetSerial"]


def test_the_indexes_of_mig_devices_have_holes() -> None:
    devices = dumped()["cards"][0]["mig_devices"]
    assert [(one["index"], one["name"]) for one in devices] == [
        (0, "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
        (3, "NVIDIA A100-SXM4-80GB MIG 3g.40gb"),
    ]
    assert devices[0]["errors"] == {}


V3, V4, V2 = "c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v4_t", "c_nvmlGpuFabricInfo_v2_t"


@pytest.mark.parametrize(
    ("without", "version", "health"),
    [
        ((), 3, (2, 1)),
        ((V3,), 4, (2, 1)),
        ((V3, V4), 2, (2, None)),
        ((V3, V4, V2), 2, (2, None)),
        ((V3, V4, V2, "c_nvmlGpuFabricInfoV_t"), 1, (None, None)),
    ],
)
def test_every_form_of_the_fabric_tells_one_clique(
    without: tuple[str, ...], version: int, health: tuple[int | None, int | None]
) -> None:
    fabric = dumped(without=without)["cards"][1]["fabric"]
    assert (fabric["version"], fabric["state"], fabric["status"], fabric["clique"]) == (version, 3, 0, 7)
    assert (fabric["health_mask"], fabric["health_summary"]) == health
    assert bytes(fabric["cluster"]).hex() == "0a0b0c0d01020304" + "05060708090a0b0c"


def test_the_older_forms_of_calls_are_used_where_the_newer_are_missing() -> None:
    newer = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlMemory_v2")
    old = dumped(without=newer, unknown=("nvmlDeviceGetComputeRunningProcesses", "nvmlSystemGetCudaDriverVersion"))
    card = old["cards"][0]
    assert (old["cuda_version"], card["temperature"], card["event_reasons"]) == (13010, 31, 1)
    assert card["memory"] == {"total": 81559 << 20, "reserved": None, "used": (479 + 4) << 20}
    assert [one["pid"] for one in card["processes"]["C"]] == [5]


def test_a_library_that_is_another_is_refused() -> None:
    assert nvml_dump.dump(object())["failure"]["stage"] == "library"


def test_a_driver_that_refuses_says_which_error() -> None:
    assert dumped(failing={"nvmlInit": 18})["failure"] == {
        "stage": "init",
        "error": 18,
        "text": "NVMLError: NVML error 18",
    }
    assert dumped(failing={"nvmlDeviceGetCount": 999})["failure"]["error"] == 999


# --- as a program ---


def run(tmp_path: Path, *, module: str | None = None, stray: str | None = None) -> nvml.Report | nvml.Failure:
    """The program's answer where `module` is the installed pynvml, and `stray` one in the current directory."""
    for name, text in (("installed", module), ("here", stray)):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "pynvml.py").write_text(text)
    environment = {"PYTHONPATH": str(tmp_path / "installed")}
    process = subprocess.run(
        [sys.executable, "-S", "-"],
        input=SOURCE,
        capture_output=True,
        text=True,
        cwd=tmp_path / "here",
        env=environment,
        timeout=30,
        check=True,
    )
    assert process.stderr == ""
    return nvml.read(process.stdout)


def test_the_program_prints_what_it_found(tmp_path: Path) -> None:
    module = (
        "def nvmlInit(): pass\ndef nvmlDeviceGetCount(): return 0\ndef nvmlSystemGetDriverVersion(): return b'570.1'"
    )
    assert run(tmp_path, module=module) == nvml.Report("570.1", None, ())


def test_a_library_that_is_missing_or_broken_is_told(tmp_path: Path) -> None:
    missing = run(tmp_path, stray="raise SystemExit('a file that lies around')")
    assert isinstance(missing, nvml.Failure)
    assert (missing.stage, missing.python) == ("missing", sys.executable)
    (tmp_path / "again").mkdir()
    broken = run(tmp_path / "again", module="import nothing_of_this_name")
    assert isinstance(broken, nvml.Failure)
    assert broken.stage == "import"


def test_the_program_runs_on_this_machine_whatever_it_has() -> None:
    result = Host().python("nvml", SOURCE, 30)
    assert (result.rc, isinstance(nvml.read(result.stdout), nvml.Report | nvml.Failure)) == (0, True)


# --- the real library ---


def test_every_name_exists_in_the_real_library() -> None:
    real = pytest.importorskip("pynvml")
    gone = {"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v2"}
    assert [name for name in ASKED if not hasattr(real, name) and name not in gone] == []


def test_the_fake_takes_the_arguments_of_the_real_library() -> None:
    real = pytest.importorskip("pynvml")
    for name, function in inspect.getmembers(FakePynvml, inspect.isfunction):
        if name.startswith("nvml"):
            _self, *own = inspect.signature(function).parameters
            assert own == list(inspect.signature(getattr(real, name)).parameters), name


@pytest.mark.parametrize("name", [name for name in ASKED if name.startswith("c_nvml")])
def test_the_fakes_structures_are_those_of_the_real_library(name: str) -> None:
    real = getattr(pytest.importorskip("pynvml"), name)
    fake = getattr(FakePynvml, name)
    assert [one[0] for one in fake._fields_] == [one[0] for one in real._fields_]
    assert ctypes.sizeof(fake) == ctypes.sizeof(real)
    assert getattr(fake(), "version", None) == getattr(real(), "version", None)


@pytest.mark.parametrize(
    ("structure", "members"),
    [
        ("nvmlPciInfo_t", ["busId"]),
        ("c_nvmlMemory_v2_t", ["total", "reserved", "used"]),
        ("c_nvmlUtilization_t", ["gpu"]),
        ("c_nvmlFieldValue_t", ["nvmlReturn", "valueType", "value"]),
        ("c_nvmlValue_t", list(nvml_dump._UNION)),
        ("c_nvmlProcessInfo_t", ["pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId"]),
        ("c_nvmlDeviceAttributes", ["multiprocessorCount"]),
    ],
)
def test_what_is_read_of_an_answer_is_there_in_the_real_library(structure: str, members: list[str]) -> None:
    real = pytest.importorskip("pynvml")
    assert set(members) <= {one[0] for one in getattr(real, structure)._fields_}


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("NVML_FI_DEV_NVLINK_LINK_COUNT", nvml_dump._FIELDS["nvlink_links"]),
        ("NVML_FI_DEV_POWER_AVERAGE", nvml_dump._FIELDS["power_average"]),
        ("NVML_FI_DEV_POWER_INSTANT", nvml_dump._FIELDS["power_instant"]),
        ("NVML_FI_DEV_RESET_STATUS", nvml_dump._FIELDS["reset_required"]),
        ("NVML_FI_DEV_DRAIN_AND_RESET_STATUS", nvml_dump._FIELDS["drain_and_reset"]),
        ("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", nvml_dump._FIELDS["recovery_action"]),
        ("NVML_FI_DEV_NVLINK_GET_SPEED", nvml_dump._LINK_SPEED),
        ("NVML_NVLINK_DEVICE_TYPE_GPU", nvml_dump._LINK_REMOTE_GPU),
        ("NVML_MEMORY_LOCATION_SRAM", nvml_dump._SRAM),
        ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", nvml_dump._DOUBLE_BIT),
        ("NVML_AGGREGATE_ECC", nvml_dump._AGGREGATE),
        ("NVML_ERROR_GPU_IS_LOST", nvml_dump._LOST),
        ("NVML_ERROR_FUNCTION_NOT_FOUND", nvml_dump._FUNCTION_NOT_FOUND),
        ("NVML_GPU_FABRIC_CLIQUE_TYPE_UNICAST_POINTER", nvml_dump._POINTER_CLIQUE),
        ("NVML_VALUE_TYPE_COUNT", len(nvml_dump._UNION)),
        ("nvmlMemory_v2", FakePynvml.nvmlMemory_v2),
    ],
)
def test_numbers_are_those_of_the_real_library(name: str, number: int) -> None:
    assert getattr(pytest.importorskip("pynvml"), name) == number


def test_the_real_library_fails_as_the_fake_does() -> None:
    real = pytest.importorskip("pynvml")
    with pytest.raises(real.NVMLError) as raised:
        raise real.NVMLError(fake_pynvml.LOST)
    assert nvml_dump._code(raised.value) == fake_pynvml.LOST
