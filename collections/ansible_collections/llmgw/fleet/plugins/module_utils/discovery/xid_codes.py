# SPDX-License-Identifier: BSD-2-Clause
"""What each XID means for a card: out of service, worth a look, or an application's own mistake (D3).

Private to llmgw and pure. NVIDIA's catalogue says what to do at once about each; only codes after which a card cannot
be trusted until it was reset take it out, because a blocking finding also moves what runs there (P1b).
"""

from __future__ import annotations

from typing import NamedTuple

RECOVERY_ACTION = 154
OFF_BUS = 79


class Meaning(NamedTuple):
    """What happened, and what to do about it; `{reset}` stands for how to reset that card."""

    said: str
    remedy: str


_RESET = "{reset} If it comes back, have the card serviced."
_FIRMWARE = "{reset} If it comes back, install a newer driver."
_LINKS = (
    "Look at 'nvidia-smi nvlink -s' and '-e'. Replicas over several cards may hang: drain the node and reset its cards "
    "together, or reboot it. If it comes back, have the card and its links serviced."
)
_WATCH = "Nothing now; have the card serviced when it keeps coming."

FATAL = {
    48: Meaning("its memory had an error that could not be corrected", _RESET),
    64: Meaning("a bad row or page of its memory could not be replaced", "Have the card serviced."),
    OFF_BUS: Meaning(
        "it fell off the bus",
        "Reboot the node; a card that stays away needs a power cycle. If it comes back lost, check its seat, power and "
        "cooling, and have it serviced.",
    ),
    95: Meaning("its memory had an error that was not contained: everything on the card may be wrong", _RESET),
    119: Meaning("its firmware (GSP) does not answer the driver", _FIRMWARE),
    120: Meaning("its firmware (GSP) failed", _FIRMWARE),
    140: Meaning("its memory had an error that was not recovered", _RESET),
    143: Meaning("it could not be initialised", _RESET),
}
"""After one of these a card is out until it was reset."""

WARNING = {
    46: Meaning("it stopped processing", _RESET),
    54: Meaning("a power cable is not connected", "Connect all power cables of the card."),
    61: Meaning("its internal controller reported a fault", _RESET),
    62: Meaning("its internal controller halted", _RESET),
    63: Meaning(
        "a bad row or page of its memory is to be replaced",
        "If the driver says that the replacement is pending: {reset}",
    ),
    74: Meaning("one of its NVLinks had an error", _LINKS),
    78: Meaning("a virtual GPU could not be started", "Install a driver that fits the host's."),
    92: Meaning("its memory has many errors that were corrected", _WATCH),
    93: Meaning("its InfoROM is written too often", "Find what changes settings of the card again and again."),
    94: Meaning(
        "its memory had an error that was contained: the application that used it was ended",
        _RESET,
    ),
    110: Meaning("it had a security fault", _RESET),
    121: Meaning("its link to the CPU (C2C) had an error", _WATCH),
    136: Meaning("one of its NVLinks could not be trained", _LINKS),
    137: Meaning("one of its NVLinks saw an access that is not allowed", _LINKS),
    155: Meaning("the software that runs its NVLinks reported an error", _LINKS),
    156: Meaning("a bad part of it is to be retired", _RESET),
    157: Meaning("a bad part of it could not be retired", "Have the card serviced."),
    158: Meaning("it did not answer in time", _RESET),
    160: Meaning("a bad memory channel is to be retired", _RESET),
    161: Meaning("a bad memory channel could not be retired", "Have the card serviced."),
    167: Meaning("it did not answer over PCIe in time", _RESET),
    171: Meaning("its memory (DRAM) had an error that could not be corrected", _RESET),
    172: Meaning("its caches (SRAM) had an error that could not be corrected", _RESET),
    **{code: Meaning("one of its NVLinks had an error", _LINKS) for code in range(144, 151)},
}
"""Worth a look; the driver's own state (recovery action, pending remaps, ECC) says whether the card is out."""

APPLICATION = frozenset(
    {
        8,
        11,
        13,
        25,
        31,
        32,
        37,
        39,
        40,
        41,
        43,
        44,
        45,
        60,
        66,
        67,
        68,
        69,
        70,
        71,
        72,
        75,
        76,
        77,
        80,
        82,
        83,
        84,
        85,
        86,
    }
    | {88, 89, *range(96, 108), 109, *range(126, 136), 139, 141}
)
"""Mistakes of applications, and what follows from another XID: facts, and no findings."""
