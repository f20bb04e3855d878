# SPDX-License-Identifier: BSD-2-Clause
"""Reads the cards of a machine by nvidia-smi (D1): asks it; what its answers say is for `smi_card` and the readings.

Private to llmgw.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Iterable, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import Finding
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    bound_cards,
    gpu_build,
    gpu_conclude,
    presence,
    smi_card,
    smi_failure,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import UNUSABLE, Host, Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import (
    smi_csv,
    smi_error,
    smi_list,
    smi_q,
    smi_xml,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.bound_cards import Bound

COMMAND = presence.CARD_TOOL
_QUERY_S = 25.0
_ONE_CARD_S = 5.0
_AT_ONCE = 4
_FOLLOW_UP_S = 10.0
_CAPABILITY = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")


class _Answer(NamedTuple):
    """What nvidia-smi told: the cards, how many the driver counts, and what is to be said about the asking."""

    cards: smi_card.SmiCards
    attached: int | None = None
    findings: tuple[Finding, ...] = ()


def read_cards(host: Host, budget_s: float) -> gpu_build.Cards:
    """The cards of this machine, within `budget_s` seconds. Without nvidia-smi and without a bound card there are none.

    Where its XML cannot be read, its text form is; where it gives up because of one card, the others are asked for by
    their addresses.
    """
    asking = _Asking(host, time.monotonic() + budget_s)
    bound = bound_cards.read(host)
    if host.which(COMMAND) is None:
        return _without_tool(bound)
    said = asking.smi(_QUERY_S, "-q", "-x")
    answer = _by_xml(said) or _otherwise(asking, bound, said)
    if answer is None:
        finding = smi_failure.finding(smi_failure.condition(said), said)
        return gpu_build.Cards(None, contract.GpuDriver(), (finding,))
    answered = bound_cards.Answered(answer.cards.gpus, answer.cards.lost)
    return _concluded(asking, answer, bound_cards.complete(answered, bound, _about_cards(said)))


class _Asking(NamedTuple):
    """Calls of nvidia-smi that together end by a deadline (of time.monotonic)."""

    host: Host
    deadline: float

    def smi(self, at_most_s: float, *arguments: str) -> Result:
        """The answer; once the time is over, nothing is asked and the answer is empty."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            return Result(UNUSABLE, "", "no time left", timed_out=True)
        return self.host.run((COMMAND, *arguments), min(at_most_s, left))


def _without_tool(bound: Sequence[Bound]) -> gpu_build.Cards:
    if not bound:
        return gpu_build.Cards(())
    finding = Finding(
        code="nvidia-smi-missing",
        severity="warn",
        message=f"the driver holds {len(bound)} cards and nvidia-smi is not installed: the cards are unknown",
        remedy="Install the driver's utilities (nvidia-smi) of the same version.",
        evidence=tuple(card.address for card in bound),
    )
    return gpu_build.Cards(None, None, (finding,))


def _by_xml(said: Result) -> _Answer | None:
    try:
        reading = smi_xml.read(said.stdout)
    except Unreadable:
        return None
    return _Answer(smi_card.cards(reading), reading.attached_gpus, smi_failure.remark(said))


def _otherwise(asking: _Asking, bound: Sequence[Bound], said: Result) -> _Answer | None:
    """The cards by another way than the XML of all; None when there is none."""
    why = smi_failure.condition(said)
    if why in smi_failure.WHOLE_DRIVER:
        return None
    answer = _by_text(asking, why, said) if why in smi_failure.GARBLED else None
    return answer or _one_by_one(asking, [card.address for card in bound])


def _by_text(asking: _Asking, why: str, said: Result) -> _Answer | None:
    """The cards of the text form. One that was cut would pass for a machine with fewer cards: it must be whole."""
    text = asking.smi(_QUERY_S, "-q")
    try:
        reading = smi_q.read(text.stdout)
    except Unreadable:
        return None
    if text.rc != 0 or not reading.gpus or len(reading.gpus) < (reading.attached_gpus or 0):
        return None
    return _Answer(smi_card.cards(reading), reading.attached_gpus, (smi_failure.other_form(why, said),))


def _one_by_one(asking: _Asking, addresses: Sequence[str]) -> _Answer | None:
    """What the cards say when each is asked for by its address, a few at once: a lost card keeps others waiting.

    None when none of them answers, or when the time did not last for all: a card that was not asked is not lost.
    """
    said: dict[str, Result] = {}
    waiting = list(reversed(addresses))
    unanswered: list[TimeoutError] = []

    def ask() -> None:
        while time.monotonic() < asking.deadline:
            try:
                address = waiting.pop()
            except IndexError:
                return
            try:
                said[address] = asking.smi(_ONE_CARD_S, "-q", "-x", "-i", address)
            except TimeoutError as error:  # of a machine that is played back
                unanswered.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _place in range(min(_AT_ONCE, len(addresses)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if unanswered:
        raise unanswered[0]
    return _together(said[address] for address in addresses) if len(said) == len(addresses) else None


def _together(answers: Iterable[Result]) -> _Answer | None:
    gpus: list[contract.Gpu] = []
    lost: dict[int, str] = {}
    versions: tuple[str | None, str | None] = (None, None)
    for answer in answers:
        try:
            told = smi_card.cards(smi_xml.read(answer.stdout))
        except Unreadable:
            continue
        for card in told.gpus[:1]:
            lost.update({len(gpus): words for words in told.lost.values()})
            gpus.append(replace(card, index=len(gpus)))
            versions = (told.driver_version, told.cuda_version)
    if len(lost) == len(gpus):
        return None
    return _Answer(smi_card.SmiCards(versions[0], versions[1], tuple(gpus), lost))


def _about_cards(answer: Result) -> dict[str, str]:
    """Messages about single cards, by address."""
    around = smi_xml.around(answer.stdout) + "\n" + answer.stderr
    named = ((smi_card.pci_address(one.bdf), one.text) for one in smi_error.unreachable(around))
    return {address: words for address, words in named if address is not None}


def _concluded(asking: _Asking, answer: _Answer, answered: bound_cards.Answered) -> gpu_build.Cards:
    known: dict[str, str] = {}
    if answered.gpus:
        query = asking.smi(_FOLLOW_UP_S, "--query-gpu=uuid,compute_cap", "--format=csv,noheader")
        known = capabilities(query.stdout)
    driver = contract.GpuDriver(COMMAND, None, answer.cards.driver_version, answer.cards.cuda_version)
    cards = gpu_conclude.conclude(asking.host, answered, driver, _listed(asking, answered.gpus), known)
    uncounted = _uncounted(answer.attached, len(answered.gpus))
    return replace(cards, findings=(*answer.findings, *uncounted, *cards.findings))


def _listed(asking: _Asking, gpus: Iterable[contract.Gpu]) -> tuple[smi_list.ListedGpu, ...]:
    """Names of MIG devices, where the long form did not tell them."""
    if all(one.uuid is not None and one.profile is not None for card in gpus for one in card.mig_instances):
        return ()
    try:
        return smi_list.read(asking.smi(_FOLLOW_UP_S, "-L").stdout).gpus
    except Unreadable:
        return ()


def capabilities(text: str) -> dict[str, str]:
    """Capability (`9.0`) by UUID, from `--query-gpu=uuid,compute_cap --format=csv,noheader`; a refusal tells none."""
    try:
        rows = smi_csv.read(text).rows
    except Unreadable:
        return {}
    pairs = [row for row in rows if isinstance(row, tuple) and len(row) == 2]  # noqa: PLR2004 - two columns
    return {uuid: capability for uuid, capability in pairs if _CAPABILITY.fullmatch(capability)}


def _uncounted(attached: int | None, found: int) -> tuple[Finding, ...]:
    """A card that fell silent may leave no other trace than the driver's count."""
    if attached is None or attached <= found:
        return ()
    finding = Finding(
        code="gpu-missing",
        severity="warn",
        message=f"the driver counts {attached} cards and tells of {found}",
        remedy="Look for XIDs in the kernel log and compare with lspci; reboot the node.",
    )
    return (finding,)
