# SPDX-License-Identifier: Apache-2.0
"""Reading the cards of a machine by nvidia-smi: what it answers, what it refuses, and one bad card among good ones."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gpu_build, nvidia_smi
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support import smi_texts
from tests.support.fake_host import FakeHost
from tests.support.smi_texts import bus_id, card, document, mig_uuid, uuid

QUERY = "nvidia-smi -q -x"
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
    ],
)
def test_a_refusal_leaves_the_cards_unknown_and_says_why(result: Result, code: str) -> None:
    cards = nvidia_smi.read_cards(FakeHost(commands={QUERY: result}), 30)
    assert cards.gpus is None
    (finding,) = cards.findings
    assert (finding.code, finding.subject) == (code, None)
    assert finding.remedy
    said = result.stdout + result.stderr
    assert finding.evidence[0] == f"exit status {result.rc}"
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


def test_a_card_that_was_not_asked_for_want_of_time_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(FakeHost):
        now = 0.0

        def run(self, argv: Sequence[str], timeout_s: float, stdin: str | None = None) -> Result:
            Slow.now += 4
            return super().run(argv, timeout_s, stdin)

    monkeypatch.setattr(time, "monotonic", lambda: Slow.now)
    commands: dict[str, Result | str] = {QUERY: Result(-9, "", "", timed_out=True)}
    commands |= {alone(number): document(card(number)) for number in range(3)}
    cards = nvidia_smi.read_cards(Slow(bound(0, 1, 2), commands=commands), 10)
    assert cards.gpus is None
    assert [one.code for one in cards.findings] == ["nvidia-smi-timeout"]


def test_nothing_is_asked_once_the_time_is_up() -> None:
    host = FakeHost(bound(0), commands={QUERY: document(card())})
    cards = nvidia_smi.read_cards(host, 0)
    assert (cards.gpus, host.ran) == (None, [])
    assert [one.code for one in cards.findings] == ["nvidia-smi-timeout"]
