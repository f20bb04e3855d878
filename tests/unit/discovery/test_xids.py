# SPDX-License-Identifier: Apache-2.0
"""XIDs of the kernel log: whose they are, what they mean, and when they no longer count."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding, Gpu, Remap, Xid
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import xid_codes, xids
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from tests.support.fake_host import FakeHost
from tests.support.smi_texts import uuid

JOURNAL = "journalctl -k -b --no-pager -o short-monotonic"
WANTED = f"{JOURNAL} --grep NVRM|nvidia-nv|10de:"
REFUSED = Result(1, "", "dmesg: read kernel buffer failed: Operation not permitted")
BOOT = "[    0.000000] Linux version 6.1.0\n"
LOAD = "[   12.000000] nvidia-nvlink: Nvlink Core is being initialized, major device number 508\n"
BOOTED_AT = 1767600000.0


def card(number: int, **facts: Any) -> Gpu:
    return Gpu(number, uuid(number), pci_address=f"0000:{0x10 + number:02x}:00.0", **facts)


CARDS = (card(0), card(1))


def line(at: float, number: int, code: int, rest: str = "pid=7, name=python3, Ch 00000008") -> str:
    return f"[{at:12.6f}] NVRM: Xid (PCI:0000:{0x10 + number:02x}:00): {code}, {rest}\n"


def asks(at: float, number: int, action: str = "0x1 (GPU Reset Required)") -> str:
    return line(at, number, 154, f"GPU recovery action changed from 0x0 (None) to {action}")


def loaded(at: float) -> str:
    return LOAD.replace("   12.000000", f"{at:12.6f}") + f"[{at + 1:12.6f}] NVRM: loading NVIDIA UNIX Kernel Module\n"


def look(
    text: str | Result, gpus: tuple[Gpu, ...] = CARDS, booted_at: float | None = BOOTED_AT, **commands: str | Result
) -> tuple[tuple[Gpu, ...], tuple[Finding, ...]]:
    journal = {WANTED: commands["journal"]} if "journal" in commands else {}
    return xids.read_xids(FakeHost(commands={"dmesg": text, **journal}), gpus, booted_at, 20)


def codes(findings: tuple[Finding, ...]) -> list[tuple[str, str, str | None]]:
    return [(one.code, one.severity, one.subject) for one in findings]


def test_an_xid_is_that_of_the_card_at_its_address() -> None:
    done, findings = look(BOOT + line(100.5, 1, 79, "GPU has fallen off the bus."))
    said = "NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off the bus."
    assert [gpu.xids for gpu in done] == [(), (Xid(79, BOOTED_AT + 100.5, said, 1),)]
    (finding,) = findings
    assert (finding.code, finding.severity, finding.subject, finding.evidence) == (
        "xid-fatal",
        "block",
        uuid(1),
        (said,),
    )
    assert finding.message == "card 1 had XID 79 at 2026-01-05 08:01 UTC: it fell off the bus"
    assert "Reboot the node" in str(finding.remedy)


def test_a_quiet_log_means_no_xids_and_no_cards_mean_no_question() -> None:
    assert look(BOOT) == (tuple(card(number, xids=()) for number in (0, 1)), ())
    host = FakeHost()
    assert xids.read_xids(host, (), None, 20) == ((), ())
    assert host.ran == []


@pytest.mark.parametrize("code", [48, 64, 79, 95, 119, 120, 140, 143])
def test_a_card_that_cannot_be_trusted_is_out_and_its_neighbours_are_not(code: int) -> None:
    _done, findings = look(BOOT + line(100, 0, code))
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]
    assert f"XID {code}" in findings[0].message
    assert findings[0].remedy


@pytest.mark.parametrize("code", [63, 74, 92, 94, 46, 62, 110, 144, 150, 158, 171])
def test_an_xid_that_is_worth_a_look_blocks_nothing(code: int) -> None:
    _done, findings = look(BOOT + line(100, 0, code))
    assert codes(findings) == [("xid-warning", "warn", uuid(0))]
    assert findings[0].remedy


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 109, 32, 69])
def test_mistakes_of_applications_are_facts_and_no_findings(code: int) -> None:
    done, findings = look(BOOT + line(100, 0, code))
    assert [xid.code for xid in done[0].xids or ()] == [code]
    assert findings == ()


@pytest.mark.parametrize("code", [999, 180, 1])
def test_an_unknown_code_is_named_as_unknown(code: int) -> None:
    _done, findings = look(BOOT + line(100, 0, code))
    assert codes(findings) == [("xid-unknown", "warn", uuid(0))]
    assert "does not know" in findings[0].message


def test_no_code_is_in_two_classes() -> None:
    classes = [set(xid_codes.FATAL), set(xid_codes.WARNING), set(xid_codes.APPLICATION), {xid_codes.RECOVERY_ACTION}]
    assert sum(map(len, classes)) == len(set.union(*classes))


def test_every_remedy_names_the_card_in_its_command() -> None:
    for code in {**xid_codes.FATAL, **xid_codes.WARNING}:
        _done, findings = look(BOOT + line(100, 0, code))
        assert "{" not in str(findings[0].remedy)
        if "gpu-reset" in str(findings[0].remedy):
            assert "-i 0000:10:00.0" in str(findings[0].remedy)


def test_a_changed_recovery_action_is_a_note_that_says_what_is_asked() -> None:
    _done, findings = look(BOOT + asks(100, 0))
    assert codes(findings) == [("xid-recovery-action", "info", uuid(0))]
    assert "'GPU Reset Required'" in findings[0].message


def test_repetitions_are_one_record_with_their_number_and_their_last_time() -> None:
    text = BOOT + "".join(line(at, 0, 13 + 18 * (at % 2)) for at in range(100, 400)) + line(401, 0, 48)
    done, findings = look(text)
    assert [(xid.code, xid.count, xid.time) for xid in done[0].xids or ()] == [
        (13, 150, BOOTED_AT + 398),
        (31, 150, BOOTED_AT + 399),
        (48, 1, BOOTED_AT + 401),
    ]
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]
    _done, often = look(BOOT + line(100, 0, 94) * 3)
    assert "XID 94, 3 times, at" in often[0].message


def test_a_card_carries_its_newest_kinds_alone_and_short_lines() -> None:
    done, _findings = look(BOOT + "".join(line(code, 0, code, "x" * 500) for code in range(200, 260)))
    records = done[0].xids or ()
    assert [xid.code for xid in records] == list(range(240, 260))
    assert max(len(xid.message or "") for xid in records) <= 120


def test_no_number_of_later_ones_hides_the_xid_that_takes_a_card_out() -> None:
    done, findings = look(BOOT + line(100, 0, 79) + "".join(line(code, 0, code) for code in range(200, 260)))
    assert [xid.code for xid in done[0].xids or ()] == [79, *range(241, 260)]
    assert findings[0].code == "xid-fatal"


@pytest.mark.parametrize("booted_at", [None, BOOTED_AT])
def test_a_time_that_cannot_be_told_is_unknown(booted_at: float | None) -> None:
    done, findings = look("NVRM: Xid (PCI:0000:10:00): 79, x\n", booted_at=booted_at)
    assert [xid.time for xid in done[0].xids or ()] == [None]
    assert findings[0].message == "card 0 had XID 79: it fell off the bus"


def test_the_first_load_of_the_driver_clears_nothing_that_comes_after_it() -> None:
    _done, findings = look(BOOT + loaded(12) + line(100, 0, 48))
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]


def test_a_driver_that_was_loaded_again_clears_what_came_before() -> None:
    done, findings = look(BOOT + loaded(12) + line(100, 0, 48) * 2 + line(101, 0, 31) + loaded(500) + line(600, 1, 95))
    assert codes(findings) == [("xid-cleared", "info", uuid(0)), ("xid-fatal", "block", uuid(1))]
    assert "the driver was loaded again since" in findings[0].message
    assert [(xid.code, xid.count, xid.cleared) for xid in done[0].xids or ()] == [
        (48, 2, "the driver was loaded again since"),
        (31, 1, "the driver was loaded again since"),
    ]


def test_an_xid_that_comes_back_after_a_reset_blocks_again() -> None:
    done, findings = look(BOOT + line(100, 0, 48) + loaded(500) + line(600, 0, 48))
    assert codes(findings) == [("xid-cleared", "info", uuid(0)), ("xid-fatal", "block", uuid(0))]
    assert [(xid.count, xid.cleared is None) for xid in done[0].xids or ()] == [(1, False), (1, True)]


def test_what_is_said_while_the_driver_loads_is_said_of_that_load() -> None:
    load = loaded(500).splitlines(keepends=True)
    _done, findings = look(BOOT + load[0] + line(500.5, 0, 143, "GPU initialisation failed") + load[1])
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]


def test_a_card_that_the_kernel_found_anew_is_a_new_one() -> None:
    found = "[  300.000000] pci 0000:10:00.0: [10de:2330] type 00 class 0x030200\n"
    _done, findings = look(BOOT + line(100, 0, 79) + line(100, 1, 79) + found)
    assert codes(findings) == [("xid-cleared", "info", uuid(0)), ("xid-fatal", "block", uuid(1))]


def test_a_driver_that_takes_its_request_back_clears_what_it_was_for() -> None:
    _done, findings = look(BOOT + line(100, 0, 119) + asks(100, 0) + asks(300, 0, "0x0 (None)"))
    assert codes(findings) == [("xid-cleared", "info", uuid(0))]


def test_a_request_that_the_driver_no_longer_makes_has_been_met() -> None:
    text = BOOT + line(100, 0, 119) + asks(100, 0) + line(145, 0, 119)
    for action, expected in (
        ("None", [("xid-cleared", "info", uuid(0))]),
        ("GPU Reset", [("xid-recovery-action", "info", uuid(0)), ("xid-fatal", "block", uuid(0))]),
        (None, [("xid-recovery-action", "info", uuid(0)), ("xid-fatal", "block", uuid(0))]),
    ):
        _done, findings = look(text, (card(0, recovery_action=action),))
        assert codes(findings) == expected
    assert "asked for 'GPU Reset Required' then and asks for nothing now" in str(
        look(text, (card(0, recovery_action="None"),))[1][0].message
    )


def test_a_driver_that_never_asked_proves_nothing_by_asking_for_nothing() -> None:
    _done, findings = look(BOOT + line(100, 0, 79), (card(0, recovery_action="None", remap=Remap(pending=False)),))
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]


def test_a_card_that_fell_off_the_bus_without_an_xid_is_out_too() -> None:
    said = "[  100.000000] NVRM: GPU at 0000:10:00.0 has fallen off the bus.\n"
    done, findings = look(BOOT + said)
    assert [(xid.code, xid.count) for xid in done[0].xids or ()] == [(79, 1)]
    assert codes(findings) == [("xid-fatal", "block", uuid(0))]
    done, _findings = look(BOOT + line(100, 0, 79, "python3") + said)
    assert [(xid.count, xid.message) for xid in done[0].xids or ()] == [(1, "NVRM: Xid (PCI:0000:10:00): 79, python3")]


def test_a_failing_card_that_the_driver_does_not_list_is_named_by_its_address() -> None:
    text = BOOT + line(100, 7, 79) + line(101, 7, 31) + line(102, 8, 31)
    _done, findings = look(text)
    assert codes(findings) == [("xid-elsewhere", "warn", "0000:17:00")]
    assert "does not list" in findings[0].message
    assert look(text + loaded(500))[1] == ()


def test_a_card_whose_address_is_unknown_gets_no_xids_of_others() -> None:
    done, _findings = look(BOOT + "[ 1.0] NVRM: Xid (0003:00): 79, x\n", (Gpu(0, uuid(0)),))
    assert done[0].xids == ()


@pytest.mark.parametrize(
    ("said", "severity"), [("Non-fatal, Link 28 RX Short", "info"), ("Fatal, Link 12 Always Fatal", "warn")]
)
def test_errors_of_switches_concern_the_node_and_block_nothing(said: str, severity: str) -> None:
    text = BOOT + f"[  9.500000] nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20009, {said}\n" * 2
    done, findings = look(text)
    assert codes(findings) == [("nvswitch-error", severity, None)]
    assert "2 errors" in findings[0].message
    assert "20009" in findings[0].message
    assert [gpu.xids for gpu in done] == [(), ()]


def test_a_log_that_plain_users_may_not_read_is_unknown_and_that_is_told() -> None:
    hint = "Hint: You are currently not seeing messages from other users and the system.\n"
    for journal in (Result(0, "-- No entries --\n", hint), Result(1, "", hint), Result(127, "", "not found")):
        done, findings = look(REFUSED, journal=journal)
        assert [gpu.xids for gpu in done] == [None, None]
        assert codes(findings) == [("kernel-log-unreadable", "info", None)]
        assert findings[0].evidence == (REFUSED.stderr,)
        assert "become" in str(findings[0].remedy)


@pytest.mark.parametrize("dmesg", [REFUSED, Result(0, "", ""), Result(127, "", "dmesg: command not found")])
def test_the_journal_tells_where_dmesg_does_not(dmesg: Result) -> None:
    journal = "[  100.500000] node7 kernel: NVRM: Xid (PCI:0000:11:00): 48, DBE\n"
    done, findings = look(dmesg, journal=journal)
    assert done[0].xids == ()
    assert done[1].xids == (Xid(48, BOOTED_AT + 100.5, "NVRM: Xid (PCI:0000:11:00): 48, DBE", 1),)
    assert "node7" not in str(findings)


def test_a_journal_in_which_nothing_matches_has_no_xids() -> None:
    done, findings = look(REFUSED, journal=Result(1, "", ""))
    assert ([gpu.xids for gpu in done], findings) == ([(), ()], ())


def test_a_journalctl_that_knows_no_patterns_is_asked_without() -> None:
    refused = Result(1, "", "Compiled without pattern matching support")
    host = FakeHost(commands={"dmesg": REFUSED, WANTED: refused, JOURNAL: line(100, 0, 48)})
    done, _findings = xids.read_xids(host, CARDS, BOOTED_AT, 20)
    assert [xid.code for xid in done[0].xids or ()] == [48]


def test_what_the_kernel_forgot_the_journal_remembers() -> None:
    new = "[ 9000.000000] eth0: up\n" + line(9500, 1, 94)
    old = line(100, 0, 48).replace("] ", "] node7 kernel: ", 1) + line(9500, 1, 94).replace("] ", "] node7 kernel: ", 1)
    done, findings = look(new, journal=old)
    assert [[(xid.code, xid.count) for xid in gpu.xids or ()] for gpu in done] == [[(48, 1)], [(94, 1)]]
    assert codes(findings) == [("xid-fatal", "block", uuid(0)), ("xid-warning", "warn", uuid(1))]


def test_a_log_that_lost_its_beginning_says_so() -> None:
    done, findings = look("[ 9000.000000] eth0: up\n")
    assert [gpu.xids for gpu in done] == [(), ()]
    assert codes(findings) == [("kernel-log-wrapped", "info", None)]
    assert "2.5 hours after boot" in findings[0].message


def test_a_dmesg_that_hangs_costs_the_xids_alone() -> None:
    done, findings = look(Result(-9, "", "", timed_out=True))
    assert done[0].xids is None
    assert findings[0].evidence == ("dmesg did not end in time",)


def test_a_budget_that_is_used_up_starts_nothing() -> None:
    host = FakeHost(commands={"dmesg": BOOT})
    done, findings = xids.read_xids(host, CARDS, BOOTED_AT, 0)
    assert host.ran == []
    assert done[0].xids is None
    assert codes(findings) == [("kernel-log-unreadable", "info", None)]
