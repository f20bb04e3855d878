# SPDX-License-Identifier: Apache-2.0
"""Faults, each of which can be made ready, injected, and healed."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from tests.fleet.faults.inside import Inside
from tests.fleet.lab.hosts import Lab

CONTROLLER_BRIDGE = "lab0"
CONTROLLER_ADDRESS = "10.77.0.1"
NOBODY = "02:00:00:00:ff:ff"
FULL = "/mnt/small-disk"
FILLER = "filler"
DIRECTORIES = {"units": "/etc/systemd/system", "state": "/var/lib/llmgw"}
ROOM_KB = 512

# Both directories move onto one small disk, with what is in them, and back.
_MOVE_IN = """
set -e
mkdir -p {full}
used=$(du -skc {every} | tail -n1 | cut -f1)
mount -t tmpfs -o mode=755,size=$((used + {room}))k small {full}
"""
_MOVE_IN_ONE = "cp -a {directory} {full}/{name} && mount --bind {full}/{name} {directory}\n"
_MOVE_BACK_ONE = """
umount -l {directory}
find {directory} -mindepth 1 -maxdepth 1 -exec rm -rf {{}} +
cp -a {full}/{name}/. {directory}/
"""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom a fault meets: the host and unit in work at that moment, and another unit on another host."""

    host: str
    unit: str
    other_host: str
    other_unit: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where faults are injected: the lab, and which of its hosts is the gateway."""

    lab: Lab
    inside: Inside
    gateway: str


Act = Callable[[Place, Target], None]
"""What is done to a target."""


def _nothing(_place: Place, _target: Target) -> None:
    """What heals by itself."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One column of the matrix.

    `engines`: which engines it takes away: those of the target's `host`, its `unit`, the `other` one, or `none`.
    `ends_run`: the run has no end of its own: it died by the fault.
    """

    name: str
    inject: Act
    heal: Act = _nothing
    prepare: Act | None = None
    clean: Act | None = None
    engines: Literal["host", "unit", "other", "none"] = "none"
    ends_run: bool = False


def _kill_controller(place: Place, _target: Target) -> None:
    assert place.inside.kill_controller(), "nothing ran on the controller"


def _kill_engine(place: Place, target: Target) -> None:
    # It may have no process at this moment, where it is just being stopped or fails to start.
    place.inside.signal_unit(target.host, target.unit, signal.SIGKILL)


def _kill_other(place: Place, target: Target) -> None:
    assert place.inside.signal_unit(target.other_host, target.other_unit, signal.SIGKILL), "no such engine"


def _crash(place: Place, target: Target) -> None:
    place.lab.crash(target.host)


def _boot(place: Place, target: Target) -> None:
    place.lab.start(target.host)


def _freeze(place: Place, target: Target) -> None:
    place.lab.freeze(target.host)


def _thaw(place: Place, target: Target) -> None:
    place.lab.thaw(target.host)


def _cut_from_controller(place: Place, target: Target) -> None:
    # What either side sends goes to an address on the wire that nobody has: lost, without an error anywhere.
    address = place.lab.addresses[target.host]
    place.inside.ip(f"neighbour replace {address} lladdr {NOBODY} dev {CONTROLLER_BRIDGE} nud permanent")
    place.inside.ip(f"neighbour replace {CONTROLLER_ADDRESS} lladdr {NOBODY} dev host0 nud permanent", target.host)


def _join_controller(place: Place, target: Target) -> None:
    address = place.lab.addresses[target.host]
    place.inside.ip(f"neighbour replace {address} lladdr {_mac(address)} dev {CONTROLLER_BRIDGE} nud permanent")
    place.inside.ip(f"neighbour del {CONTROLLER_ADDRESS} dev host0", target.host)


def _cut_from_gateway(place: Place, target: Target) -> None:
    here, there = place.lab.addresses[target.host], place.lab.addresses[place.gateway]
    place.inside.ip(f"neighbour replace {here} lladdr {NOBODY} dev host0 nud permanent", place.gateway)
    place.inside.ip(f"neighbour replace {there} lladdr {NOBODY} dev host0 nud permanent", target.host)


def _join_gateway(place: Place, target: Target) -> None:
    here, there = place.lab.addresses[target.host], place.lab.addresses[place.gateway]
    place.inside.ip(f"neighbour replace {here} lladdr {_mac(here)} dev host0 nud permanent", place.gateway)
    place.inside.ip(f"neighbour replace {there} lladdr {_mac(there)} dev host0 nud permanent", target.host)


def _mac(address: str) -> str:
    """A host's address on the wire, as the lab gives it."""
    return f"02:00:00:00:00:{int(address.rpartition('.')[2]):02x}"


def _small_disk(place: Place, target: Target) -> None:
    script = _MOVE_IN.format(full=FULL, every=" ".join(DIRECTORIES.values()), room=ROOM_KB)
    for name, directory in DIRECTORIES.items():
        script += _MOVE_IN_ONE.format(full=FULL, name=name, directory=directory)
    place.lab.ssh(target.host, script, check=True)


def _fill(place: Place, target: Target) -> None:
    with suppress(OSError), place.inside.path(target.host, f"{FULL}/{FILLER}").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)


def _free(place: Place, target: Target) -> None:
    place.inside.path(target.host, f"{FULL}/{FILLER}").unlink()


def _large_disk(place: Place, target: Target) -> None:
    script = "set -e\n"
    for name, directory in DIRECTORIES.items():
        script += _MOVE_BACK_ONE.format(full=FULL, name=name, directory=directory)
    script += f"umount -l {FULL}; systemctl daemon-reload"
    place.lab.ssh(target.host, script, check=True)


def _hang_ssh(place: Place, target: Target) -> None:
    assert place.inside.signal_program(target.host, "sshd", signal.SIGSTOP), "no sshd"


def _wake_ssh(place: Place, target: Target) -> None:
    place.inside.signal_program(target.host, "sshd", signal.SIGCONT)


FAULTS = (
    Fault("kill controller", _kill_controller, ends_run=True),
    Fault("kill engine in work", _kill_engine, engines="unit"),
    Fault("kill another engine", _kill_other, engines="other"),
    Fault("crash node", _crash, _boot, engines="host"),
    Fault("cut from controller", _cut_from_controller, _join_controller),
    Fault("cut from gateway", _cut_from_gateway, _join_gateway, engines="host"),
    Fault("freeze node", _freeze, _thaw, engines="host"),
    Fault("disk full", _fill, _free, prepare=_small_disk, clean=_large_disk),
    Fault("ssh hangs", _hang_ssh, _wake_ssh),
)
