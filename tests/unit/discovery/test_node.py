# SPDX-License-Identifier: Apache-2.0
"""The whole of a node: every part in its time, no part at the cost of another, nothing known that was not looked at."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NodeFacts, NodeMark, QuarantinedDevice
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Response
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record
from ansible_collections.llmgw.fleet.plugins.module_utils.unitfile import Header
from tests.support.fake_host import FakeHost
from tests.support.smi_texts import card, document

STATE = "/var/lib/llmgw"
FILES: dict[str, str | bytes] = {
    "/proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 500 kB\n",
    "/proc/cpuinfo": "processor\t: 0\nphysical id\t: 0\ncore id\t: 0\nflags\t: avx2\n",
    "/proc/self/mountinfo": "21 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
    "/models/tiny.gguf": b"GGUF\x03\x00\x00\x00",
    f"{STATE}/generation": "12\n",
    f"{STATE}/drained": "",
}


def probes(facts: NodeFacts) -> dict[str, bool]:
    return {probe.name: probe.ok for probe in facts.probes}


def test_a_node_reports_all_that_it_was_asked_for() -> None:
    host = FakeHost(FILES, commands={"nvidia-smi -q -x": document(card())}, space={"/": (10, 5)})
    facts = node.collect(host, node.Options(model_dirs=["/models"], gateway_bundle="/b"))
    assert facts.memory is not None
    assert facts.memory.total_bytes == 1000 * 1024
    assert [one.device_class for one in facts.gpus or ()] == ["h100-80g"]
    assert [one.model for one in facts.weights or ()] == ["tiny.gguf"]
    assert [one.mount_point for one in facts.filesystems or ()] == ["/"]
    assert (facts.generation, facts.cordoned, facts.drained) == (12, False, True)
    assert (facts.engines, facts.foreign_engines) == ((), ())
    assert facts.gateway is not None
    assert facts.collected_at == 1_700_000_000.0
    assert all(probe.seconds >= 0 for probe in facts.probes)


def test_a_node_tells_who_marked_it_and_its_devices_and_what_of_that_cannot_be_read() -> None:
    card = "GPU-6a1b2c3d-0000-1111-2222-333344445555"
    files = {
        **FILES,
        f"{STATE}/cordoned": json.dumps({"by": "ops@ctl1", "at": 5.0, "reason": "fan"}),
        f"{STATE}/drained": "{",
        f"{STATE}/quarantine/{card}.json": json.dumps({"code": "gpu-lost", "message": "gone", "since": 7.0}),
    }
    facts = node.collect(FakeHost(files), node.Options())
    assert (facts.cordoned, facts.cordon_mark) == (True, NodeMark("ops@ctl1", 5.0, "fan"))
    assert (facts.drained, facts.drain_mark) == (True, NodeMark())
    assert facts.quarantined == (QuarantinedDevice(card, "gpu-lost", "gone", 7.0),)
    assert [(one.code, one.part) for one in facts.findings if one.code.startswith("mark")] == [
        ("mark-unreadable", "state")
    ]


def test_a_state_directory_that_cannot_be_listed_says_nothing_of_marks() -> None:
    class Closed(FakeHost):
        def list(self, path: str) -> tuple[str, ...] | None:
            return None if path == STATE else super().list(path)

        def exists(self, path: str) -> bool:
            return path == STATE or super().exists(path)

    facts = node.collect(Closed(FILES), node.Options())
    assert (facts.cordoned, facts.drained, facts.cordon_mark, facts.quarantined) == (None, None, None, None)


def test_what_nobody_asked_for_is_unknown() -> None:
    facts = node.collect(FakeHost(FILES), node.Options())
    assert (facts.weights, facts.gateway) == (None, None)
    assert node.collect(FakeHost(FILES), node.Options(model_dirs=[])).weights is None


def test_a_node_told_to_look_where_nothing_is_reports_that_it_has_nothing() -> None:
    assert node.collect(FakeHost(FILES), node.Options(model_dirs=["/none"])).weights == ()


def test_weights_are_unknown_when_nobody_knows_which_directories_answer() -> None:
    class Broken(FakeHost):
        def statfs(self, path: str) -> tuple[int, int] | None:
            raise RuntimeError(path)

    facts = node.collect(Broken(FILES), node.Options(model_dirs=["/models"]))
    assert (facts.filesystems, facts.weights) == (None, None)


def test_a_share_that_hangs_costs_no_weights_elsewhere() -> None:
    host = FakeHost({**FILES, "/share/big.gguf": b"GGUF"}, hanging=["/share"])
    facts = node.collect(host, node.Options(model_dirs=["/share", "/models"]))
    assert [one.model for one in facts.weights or ()] == ["tiny.gguf"]
    assert "storage-hangs" in [one.code for one in facts.findings]


def test_a_probe_that_raises_costs_its_own_part_and_is_told() -> None:
    class Broken(FakeHost):
        def machine(self) -> str:
            raise PermissionError("no\nway")

    facts = node.collect(Broken(FILES), node.Options())
    assert facts.system is None
    assert facts.memory is not None
    failed = [one for one in facts.findings if one.code == "probe-failed" and "'system'" in one.message]
    assert [one.message.endswith("PermissionError: no way") for one in failed] == [True]
    assert probes(facts)["system"] is False
    assert probes(facts)["memory"] is True


def test_a_probe_that_hangs_is_given_up_and_the_module_ends_in_time() -> None:
    class Hanging(FakeHost):
        def machine(self) -> str:
            time.sleep(30)
            return ""

    begun = time.monotonic()
    facts = node.collect(Hanging(FILES), node.Options(timeout_s=0.3))
    assert time.monotonic() - begun < 25
    assert facts.system is None
    assert probes(facts)["system"] is False


def test_without_a_manager_the_units_are_unknown_and_not_none_at_all() -> None:
    facts = node.collect(FakeHost(FILES), node.Options())
    assert facts.units is None
    assert probes(facts)["units"] is False


@pytest.mark.parametrize(
    ("health", "models", "serves"),
    [
        (Response(200, b"ok"), Response(200, b'{"data": [{"id": "tiny"}]}'), True),
        (Response(200, b"ok"), Response(200, b'{"data": [{"id": "other"}]}'), False),
        (Response(503, b"loading"), Response(200, b'{"data": [{"id": "tiny"}]}'), False),
        (Response(None, b"", "timed out"), Response(None, b"", "timed out"), None),
    ],
)
def test_a_unit_is_ready_when_its_weights_are_served_and_unknown_when_it_is_silent(
    health: Response, models: Response, serves: bool | None
) -> None:
    host = FakeHost(answers={"http://10.0.0.1:18000/up": health, "http://10.0.0.1:18000/list": models})
    header = Header(address="10.0.0.1", port=18000, served_name="tiny")
    assert node._serves(host, header, Record(health_path="/up", models_path="/list")) is serves


def test_a_unit_without_a_record_is_asked_at_the_usual_paths() -> None:
    host = FakeHost()
    node._serves(host, Header(address="10.0.0.1", port=18000), Record())
    assert [url for url, _headers in host.fetched] == ["http://10.0.0.1:18000/health"]


def test_a_node_without_a_state_directory_has_no_marker_and_no_generation() -> None:
    facts = node.collect(FakeHost(), node.Options())
    assert (facts.generation, facts.cordoned, facts.drained) == (None, False, False)


def test_the_state_directory_of_a_user_is_in_the_home() -> None:
    files = {"/home/ops/.local/state/llmgw/generation": "3"}
    assert node.collect(FakeHost(files), node.Options(scope="user")).generation == 3


def test_facts_travel_as_json() -> None:
    host = FakeHost(FILES, commands={"nvidia-smi -q -x": document(card())})
    text = json.dumps(dataclasses.asdict(node.collect(host, node.Options(model_dirs=["/models"]))))
    assert json.loads(text)["gpus"][0]["device_class"] == "h100-80g"


BOOT: dict[str, str | bytes] = {"/proc/sys/kernel/random/boot_id": "b1\n", "/sys/module/nvidia/version": "580.65.06\n"}


def test_a_refresh_reads_the_volatile_parts_of_a_machine_it_knows() -> None:
    options = node.Options(gather=["volatile"], known_key="b1 580.65.06")
    facts = node.collect(FakeHost({**FILES, **BOOT}), options)
    assert facts.cpu is None
    assert facts.engines is None
    assert facts.memory is not None
    assert facts.gathered is not None
    assert {"memory", "units"} <= set(facts.gathered)
    assert not {"cpu", "engines", "weights"} & set(facts.gathered)
    assert not {"cpu", "engines", "weights"} & set(probes(facts))


@pytest.mark.parametrize("known", [None, "b0 580.65.06", "b1 570.10"])
def test_after_a_reboot_or_a_new_driver_a_refresh_reads_the_hardware_too(known: str | None) -> None:
    facts = node.collect(FakeHost({**FILES, **BOOT}), node.Options(gather=["volatile"], known_key=known))
    assert facts.hardware_key == "b1 580.65.06"
    assert facts.cpu is not None
    assert facts.engines == ()


def test_every_part_says_when_it_was_read_and_every_finding_who_found_it() -> None:
    facts = node.collect(FakeHost(FILES), node.Options(model_dirs=["/models"]))
    assert {probe.at for probe in facts.probes} == {1_700_000_000.0}
    assert {finding.part for finding in facts.findings} <= {probe.name for probe in facts.probes}
    assert None not in {finding.part for finding in facts.findings}
    assert facts.gathered is None


def test_a_machine_without_adapters_cards_and_imex_has_none_and_that_is_no_finding() -> None:
    facts = node.collect(FakeHost(FILES), node.Options())
    assert (facts.gpus, facts.rdma_ports, facts.imex) == ((), (), None)
    assert [one.code for one in facts.findings if one.part in {"gpus", "rdma", "imex", "topology", "xids"}] == []


def test_a_node_tells_who_applied_to_it_last() -> None:
    noted = '{"at": 1796047380.5, "by": "ops@ctl1", "generation": 13, "plan_id": "a"}'
    facts = node.collect(FakeHost({**FILES, f"{STATE}/applied.json": noted}), node.Options(gather=["volatile"]))
    assert (facts.generation, facts.applied_by, facts.applied_at) == (13, "ops@ctl1", 1796047380.5)
    before = node.collect(FakeHost(FILES), node.Options(gather=["volatile"]))
    assert (before.generation, before.applied_by, before.applied_at) == (12, None, None)
