# SPDX-License-Identifier: Apache-2.0
"""Reading the cards of a machine by nvidia-smi: what it answers, what it refuses, and one bad card among good ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_build, nvidia_smi
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support import smi_machines, smi_texts
from tests.support.fake_host import FakeHost
from tests.support.smi_machines import Card
from tests.support.smi_texts import bus_id, card, document, mig_uuid, uuid
from tests.unit.readings.corpus import Item, items

QUERY = "nvidia-smi -q -x"
TEXT = "nvidia-smi -q"
LIST = "nvidia-smi -L"
CAPABILITY = "nvidia-smi --query-gpu=uuid,compute_cap --format=csv,noheader"
LOST = "Unable to determine the device handle for GPU1: 0000:11:00.0: GPU is lost.  Reboot the system"
BOUND = "/proc/driver/nvidia/gpus"


def bound(*numbers: int, excluded: int = -1) -> dict[str, str | bytes]:
    """The driver's own list of cards."""
    return {
        f"{BOUND}/{bus_id(number)[4:].lower()}/information": f"GPU Excluded: {'Yes' if number == excluded else 'No'}\n"
        for number in numbers
    }


def alone(number: int) -> str:
    return f"{QUERY} -i {bus_id(number)[4:].lower()}"


def test_a_machine_without_nvidia_smi_has_no_cards_and_nothing_is_wrong() -> None:
    assert nvidia_smi.read_cards(FakeHost(), 30) == gpu_build.Cards(())


def test_cards_without_nvidia_smi_are_unknown_and_that_is_told() -> None:
    cards = nvidia_smi.read_cards(FakeHost(bound(0)), 30)
    assert cards.gpus is None
    assert [one.code for one in cards.findings] == ["nvidia-smi-missing"]


def test_the_cards_come_with_class_capability_and_driver() -> None:
    host = FakeHost(commands={QUERY: document(card(0), card(1)), CAPABILITY: f"{uuid(0)}, 9.0\n{uuid(1)}, 9.0\n"})
    cards = nvidia_smi.read_cards(host, 30)
    assert cards.gpus is not None
    assert [(one.device_class, one.compute_capability) for one in cards.gpus] == [("h100-80g", "9.0")] * 2
    assert cards.driver is not None
    assert (cards.driver.source, cards.driver.driver_version, cards.driver.cuda_version) == (
        "nvidia-smi",
        "570.86.15",
        "12.8",
    )
    assert cards.findings == ()
    assert LIST not in host.ran, "a card without instances needs no list"


def test_instances_get_their_uuids_from_the_list() -> None:
    listed = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {uuid(0)})\n  MIG 3g.40gb     Device  0: (UUID: {mig_uuid(1)})\n"
    text = document(
        card(
            name="NVIDIA A100-SXM4-80GB",
            total="81920 MiB",
            mig=("Enabled", "Enabled"),
            instances=[smi_texts.instance(0, 1)],
        )
    )
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: text, LIST: listed}), 30)
    assert cards.gpus is not None
    (instance,) = cards.gpus[0].mig_instances
    assert (instance.uuid, instance.device_class) == (mig_uuid(1), "a100-80g-mig-3g.40gb")


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (
            Result(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", ""),
            "driver-not-loaded",
        ),
        (Result(18, "", "Failed to initialize NVML: Driver/library version mismatch"), "driver-library-mismatch"),
        (Result(255, "Failed to initialize NVML: Unknown Error", ""), "nvml-init-failed"),
        (Result(6, "No devices were found", ""), "no-devices"),
        (Result(15, LOST, ""), "gpu-lost"),
        (Result(4, "Insufficient Permissions", ""), "driver-refuses"),
        (Result(0, "", ""), "nvidia-smi-empty"),
        (Result(-9, "", "", timed_out=True), "nvidia-smi-timeout"),
        (Result(0, document(card())[:400], ""), "nvidia-smi-truncated"),
        (Result(0, "hello", ""), "nvidia-smi-unreadable"),
        (Result(12, "", "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system."), "nvml-missing"),
        (Result(9, "a word of another year", ""), "driver-not-loaded"),
        (Result(15, "", ""), "gpu-lost"),
        (Result(8, "", "a cable"), "gpu-power-cable"),
        (Result(127, "", "nvidia-smi: command not found"), "nvidia-smi-unreadable"),
    ],
)
def test_a_refusal_leaves_the_cards_unknown_and_says_why(result: Result, code: str) -> None:
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: result}), 30)
    assert cards.gpus is None
    (finding,) = cards.findings
    assert (finding.code, finding.subject) == (code, None)
    assert finding.remedy
    said = result.stdout + result.stderr
    ended = "killed because it did not end in time" if result.timed_out else f"exit status {result.rc}"
    assert finding.evidence[0] == ended
    assert cards.driver == contract.GpuDriver(), "who told nothing of the driver has not read it"
    assert [quote in " ".join(said.split()) for quote in finding.evidence[1:]] == ([True] if said else [])


def test_one_card_that_makes_nvidia_smi_give_up_does_not_hide_the_others() -> None:
    host = FakeHost(
        bound(0, 1, 2),
        commands={
            QUERY: Result(15, LOST + "\n", ""),
            alone(0): document(card(0), attached=3),
            alone(1): Result(15, LOST + "\n", ""),
            alone(2): document(card(2), attached=3),
        },
    )
    cards = nvidia_smi.read_cards(host, 30)
    assert cards.gpus is not None
    assert [(one.index, one.uuid) for one in cards.gpus] == [(0, uuid(0)), (1, None), (2, uuid(2))]
    assert [(one.code, one.subject, one.evidence) for one in cards.findings] == [("gpu-lost", "0000:11:00.0", (LOST,))]


def test_a_card_that_nvidia_smi_leaves_out_silently_is_missed() -> None:
    cards = nvidia_smi.read_cards(FakeHost(bound(0, 1, 2), commands={QUERY: document(card(0), card(2))}), 30)
    assert cards.gpus is not None
    assert [(one.index, one.pci_address) for one in cards.gpus] == [
        (0, "0000:10:00.0"),
        (1, "0000:11:00.0"),
        (2, "0000:12:00.0"),
    ]
    assert [(one.code, one.subject) for one in cards.findings] == [("gpu-lost", "0000:11:00.0")]


def test_a_card_that_only_a_message_speaks_of_is_missed_too() -> None:
    host = FakeHost(commands={QUERY: Result(255, document(card(0), card(2)) + LOST, "")})
    cards = nvidia_smi.read_cards(host, 30)
    assert cards.gpus is not None
    assert [(one.index, one.uuid) for one in cards.gpus] == [(0, uuid(0)), (1, None), (2, uuid(2))]
    assert [(one.code, one.subject, one.evidence) for one in cards.findings] == [("gpu-lost", "0000:11:00.0", (LOST,))]


def test_a_card_that_the_administrator_excluded_is_not_missed() -> None:
    cards = nvidia_smi.read_cards(FakeHost(bound(0, 1, excluded=1), commands={QUERY: document(card(0))}), 30)
    assert cards.gpus is not None
    assert (len(cards.gpus), cards.findings) == (1, ())


def test_a_process_is_owned_by_cgroup_and_every_other_is_foreign() -> None:
    processes = [smi_texts.process(50, "VLLM::EngineCore", "900 MiB"), smi_texts.process(51, "train.py", "44 MiB")]
    files = {
        "/proc/50/cgroup": "0::/system.slice/llmgw-chat.0.0.service\n",
        "/proc/51/cgroup": "0::/user.slice/session-3.scope\n",
    }
    cards = nvidia_smi.read_cards(FakeHost(files, commands={QUERY: document(card(processes=processes))}), 30)
    assert cards.gpus is not None
    assert [one.unit for one in cards.gpus[0].processes or ()] == ["llmgw-chat.0.0.service", None]
    assert [(one.code, one.severity, one.subject) for one in cards.findings] == [("foreign-memory", "block", uuid(0))]


def test_a_broken_driver_is_not_asked_card_by_card() -> None:
    answer = Result(18, "Failed to initialize NVML: Driver/library version mismatch", "")
    host = FakeHost(bound(0, 1), commands={QUERY: answer})
    assert nvidia_smi.read_cards(host, 30).gpus is None
    assert host.ran == [QUERY]


def answering_one_by_one(*numbers: int) -> dict[str, Result | str]:
    return {QUERY: Result(15, LOST, "")} | {alone(number): document(card(number)) for number in numbers}


def test_a_card_that_was_not_asked_for_want_of_time_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeHost):
        now = 0.0

        def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
            Slow.now += 4
            return super().run(argv, timeout_s, stdin)

    monkeypatch.setattr(time, "monotonic", lambda: Slow.now)
    cards = nvidia_smi.read_cards(Slow(bound(*range(9)), commands=answering_one_by_one(*range(9))), 10)
    assert cards.gpus is None
    assert [one.code for one in cards.findings] == ["gpu-lost"]
    assert cards.findings[0].subject is None


def test_cards_are_asked_a_few_at_once_because_a_dead_one_may_not_answer() -> None:
    class Meeting(FakeHost):
        together = threading.Barrier(4)

        def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
            if "-i" in argv:
                self.together.wait(10)
            return super().run(argv, timeout_s, stdin)

    host = Meeting(bound(*range(8)), commands=answering_one_by_one(*(set(range(8)) - {1})))
    cards = nvidia_smi.read_cards(host, 30)
    assert cards.gpus is not None
    assert [one.uuid for one in cards.gpus] == [None if number == 1 else uuid(number) for number in range(8)]
    assert [(one.code, one.subject) for one in cards.findings] == [("gpu-lost", "0000:11:00.0")]


def test_a_machine_that_is_played_back_and_stopped_there_has_no_answer_either() -> None:
    class Stopped(FakeHost):
        def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
            if "-i" in argv:
                raise TimeoutError("the machine did not answer")
            return super().run(argv, timeout_s, stdin)

    with pytest.raises(TimeoutError):
        nvidia_smi.read_cards(Stopped(bound(0, 1), commands=answering_one_by_one(0, 1)), 30)


def test_nothing_is_asked_once_the_time_is_up() -> None:
    host = FakeHost(bound(0), commands={QUERY: document(card())})
    cards = nvidia_smi.read_cards(host, 0)
    assert (cards.gpus, host.ran) == (None, [])
    assert [one.code for one in cards.findings] == ["nvidia-smi-timeout"]


@pytest.mark.parametrize("xml", [smi_machines.xml(Card())[:500], "", "garbage", "<nvidia_smi_log>&</nvidia_smi_log>"])
def test_where_the_xml_cannot_be_read_the_text_is_and_that_is_told(xml: str) -> None:
    host = FakeHost(bound(0, 1), commands={QUERY: xml, TEXT: smi_machines.text(Card(0), Card(1))})
    cards = nvidia_smi.read_cards(host, 30)
    by_xml = nvidia_smi.read_cards(FakeHost(bound(0, 1), commands={QUERY: smi_machines.xml(Card(0), Card(1))}), 30)
    assert cards.gpus is not None
    assert cards.gpus == by_xml.gpus
    assert cards.driver == by_xml.driver
    told = [one for one in cards.findings if one not in by_xml.findings]
    assert [(one.code, one.severity) for one in told] == [("nvidia-smi-text-form", "info")]


@pytest.mark.parametrize(
    "text",
    [
        Result(0, smi_machines.text(Card(0), attached=2), ""),
        Result(15, smi_machines.text(Card(0)), ""),
        Result(0, "hello", ""),
        Result(0, smi_machines.text(attached=0), ""),
    ],
)
def test_a_text_that_is_not_whole_is_not_taken_for_a_machine_with_fewer_cards(text: Result) -> None:
    commands: dict[str, Result | str] = {QUERY: "garbage", TEXT: text}
    commands |= {alone(number): document(card(number)) for number in (0, 1)}
    cards = nvidia_smi.read_cards(FakeHost(bound(0, 1), commands=commands), 30)
    assert cards.gpus is not None
    assert ([one.uuid for one in cards.gpus], cards.findings) == ([uuid(0), uuid(1)], ())


def test_a_card_that_left_no_trace_but_the_drivers_count_is_missed() -> None:
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: document(card(0), attached=2)}), 30)
    assert cards.gpus is not None
    assert [one.code for one in cards.findings] == ["gpu-missing"]


@pytest.mark.parametrize(
    ("rc", "code"), [(0, None), (14, "inforom-corrupted"), (8, "gpu-power-cable"), (10, "gpu-interrupts"), (255, None)]
)
def test_an_exit_status_that_speaks_of_a_card_is_told_although_the_answer_is_right(rc: int, code: str | None) -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:10:00.0"
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: Result(rc, f"{document(card())}{warning}", "")}), 30)
    assert cards.gpus is not None
    assert [one.code for one in cards.findings] == ([code] if code else [])
    assert all(one.evidence == (f"exit status {rc}", warning) for one in cards.findings)


def test_a_driver_that_does_not_know_a_field_costs_that_field_alone() -> None:
    refusal = Result(2, 'Field "compute_cap" is not a valid field to query.\n', "")
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: document(card()), CAPABILITY: refusal}), 30)
    assert cards.gpus is not None
    assert [(one.uuid, one.compute_capability) for one in cards.gpus] == [(uuid(0), None)]


def test_the_first_form_of_mig_uuids_is_joined_too() -> None:
    listed = f"GPU 0: Graphics Device (UUID: {uuid(0)})\n  MIG Device 1: (UUID: MIG-{uuid(0)}/1/1)\n"
    text = document(card(mig=("Enabled", "Enabled"), instances=[smi_texts.instance(1, 1, 1)]))
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: text, LIST: listed}), 30)
    assert cards.gpus is not None
    (instance,) = cards.gpus[0].mig_instances
    assert (instance.uuid, instance.profile) == (f"MIG-{uuid(0)}/1/1", None)


@pytest.mark.parametrize("item", items("error"))
def test_whatever_nvidia_smi_prints_when_it_fails_ends_in_one_finding_with_a_remedy(item: Item) -> None:
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: Result(255, item.text, "")}), 30)
    assert cards.gpus is None
    (finding,) = cards.findings
    assert finding.severity == "warn"
    assert finding.remedy
    known = {
        "insufficient-permissions": "driver-refuses",
        "empty": "nvidia-smi-empty",
        "usage-error": "nvidia-smi-usage",
    }
    condition = item.expected["condition"]
    unrelated = condition is None or condition.startswith(("mig-", "topology-"))
    assert finding.code == ("nvidia-smi-unreadable" if unrelated else known.get(condition, condition))
