# SPDX-License-Identifier: BSD-2-Clause
"""Reads where the IMEX channels are: `/proc/devices`, and `ls -l` of /dev/nvidia-caps-imex-channels, or both in one.

Private to llmgw and pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable

CHANNELS = "nvidia-caps-imex-channels"
_CAPABILITIES = "nvidia-caps"
# Of the names in /proc/devices one is the beginning of the other.
_REGISTERED = re.compile(r"\s*(?P<major>[0-9]{1,6})\s+(?P<name>[^\s:]+)\s*")
_MODE = re.compile(r"[bc][-rwxsStT]{9}[.+@]?")
_MAJOR = re.compile(r"(?P<major>[0-9]{1,6}),[0-9]*")
_CHANNEL = re.compile(r"(?:\S*/)?channel(?P<id>[0-9]{1,6})")
_FOLDER = re.compile(rf"\S*/{CHANNELS}/?:?|total [0-9]+|Character devices:|Block devices:")


@dataclass(frozen=True)
class ImexDevices:
    """Major numbers, and the ids of the channels that are listed, ascending."""

    imex_major: int | None = None
    caps_major: int | None = None
    channels: tuple[int, ...] = ()


def read(text: str) -> ImexDevices:
    """The reading. Raises Unreadable when no line is of /proc/devices or of a listing."""
    registered: dict[str, int] = {}
    listed: dict[int, int | None] = {}
    known = False
    for line in text.splitlines():
        device = _REGISTERED.fullmatch(line)
        channels = _channels(line)
        if device is not None:
            registered.setdefault(device.group("name"), int(device.group("major")))
        for channel, major in channels:
            listed.setdefault(channel, major)
        known = known or bool(device or channels or _listed(line.split()) or _FOLDER.fullmatch(line.strip()))
    if not known and CHANNELS not in text:
        raise Unreadable("no line of /proc/devices and no listing of device files")
    majors = [major for _channel, major in sorted(listed.items()) if major is not None]
    return ImexDevices(
        imex_major=registered.get(CHANNELS, majors[0] if majors else None),
        caps_major=registered.get(_CAPABILITIES),
        channels=tuple(sorted(listed)),
    )


def _channels(line: str) -> list[tuple[int, int | None]]:
    """Channels that a line lists with their major number: one line of `ls -l`, or names alone as `ls` prints them."""
    words = line.split()
    long = _listed(words)
    if long is not None:
        channel = _CHANNEL.fullmatch(words[-1])
        return [(int(channel.group("id")), long)] if channel else []
    names = [_CHANNEL.fullmatch(word) for word in words]
    return [(int(name.group("id")), None) for name in names if name] if all(names) else []


def _listed(words: list[str]) -> int | None:
    """Major number of the device file that a line of `ls -l` is about; None for another line."""
    modes = [place for place, word in enumerate(words) if _MODE.fullmatch(word)]
    after = words[modes[0] + 1 :] if modes else []
    majors = [found for found in (_MAJOR.fullmatch(word) for word in after) if found]
    return int(majors[0].group("major")) if majors else None
