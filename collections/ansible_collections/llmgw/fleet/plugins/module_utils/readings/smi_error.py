# SPDX-License-Identifier: BSD-2-Clause
"""Reads what nvidia-smi prints when something is wrong: why, about which card, and what it told nevertheless.

Private to llmgw and pure; every text has a reading. A message is known by its words; tables, XML and rows of values
hold similar words about single fields and are no messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterator

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_csv, smi_table, smi_xml
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_table import TableGpu

# Domains have four digits or eight, retyped ones three. `GPU1: 0000:0A:00.0` names card 1, `GPU0000:0A:00.0` names no
# index.
_BUS_ID = re.compile(
    r"(?:\bGPU ?(?P<index>[0-9]{1,3}): ?)?(?P<bdf>[0-9A-F]{3,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])",
    re.IGNORECASE,
)
_LIBRARY = re.compile(r"NVML library version:\s*(\S+)", re.IGNORECASE)
_XML_DRIVER = re.compile(r"<driver_version>([^<]*)</driver_version>")
# No message is longer; what is longer is not searched to its end.
_LONGEST = 2000
_HANDLE = r"Unable to de(?:termine|tect) the device handle"
# What opens a sentence and not a row of values.
_SENTENCE = re.compile(
    r"\s*(?:#|(?:warning|error|note|treating|unable|failed|please|reboot|make|try|terminat\w+|option|field|invalid|no|"
    r"the|nvidia-smi|all|some|provided|defaulted|usage|cannot|can't|could(?:n't)?)\b(?!,))",
    re.IGNORECASE,
)
# What no row of values holds: a sentence runs on for some words, or ends in one; a field has its value behind a colon
# or an equals sign; a command has options.
_PROSE = re.compile(
    r"(?<!\S)[a-z]{2,}(?: [a-z]{2,}){2}(?![^\s.,:;])|\s[a-z]{3,}\.\s*$|^[^,]*\s[:=]\s|\bnvidia-smi(?:\.exe)? -"
)
# What a driver says in the place of a value is one cell, however many words it has.
_WORDED_CELL = re.compile(r"\[[^\]]*\]|Requested functionality has been deprecated")
# A field of `-q` or of `--version`, or the line that opens a card.
_OF_QUERY = re.compile(r"\s.* : |[^,:]*\s\s: |\s*GPU [0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-7]\s*$", re.IGNORECASE)


def _any(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words), re.IGNORECASE)


# The first that applies names the condition.
_CONDITIONS = (
    ("driver-not-loaded", _any(r"communicate with (?:the )?NVIDIA driver")),
    ("driver-library-mismatch", _any(r"Driver/library version mismatch")),
    ("nvml-init-failed", _any(r"Failed to initialize NVML")),
    ("gpu-lost", _any(_HANDLE + r".*GPU is lost")),
    ("gpu-handle-error", _any(_HANDLE)),
    ("no-devices", _any(r"No devices were found")),
    ("mig-enabled-no-instances", _any(r"No GPU instances found")),
    ("mig-unsupported", _any(r"No MIG-supported devices found", r"Unable to enable MIG Mode.*Not Supported")),
    ("insufficient-permissions", _any(r"(?<!\[)Insufficient Permissions")),
    ("topology-unavailable", _any(r"Failed to run topology matrix")),
    (
        "usage-error",
        _any(
            r"must be used in conjunction with",
            r"is missing its value",
            r"is not recognized",
            r"is not a valid (?:field|option|argument|value)",
            r"Invalid combination of input arguments",
            r"Please run 'nvidia-smi[^']* -h'",
        ),
    ),
)


@dataclass(frozen=True)
class SmiError:
    """What a text says. `condition` None: nothing is wrong that llmgw has a word for; `n_gpus` None: it is no proof."""

    condition: str | None
    gpu_index: int | None
    bdf: str | None
    driver: str | None
    nvml_library: str | None
    n_gpus: int | None
    gpus: tuple[TableGpu, ...]
    rows: tuple[dict[str, str | None] | tuple[str, ...], ...]


@dataclass(frozen=True)
class Unreachable:
    """A card whose handle the driver could not give: its bus id as printed, and the line that says so."""

    bdf: str
    text: str


def read(text: str) -> SmiError:
    """The reading; raises nothing."""
    lines = [line for line in _outside(text).splitlines() if line.strip() and not _is_structure(line)]
    messages = [line[:_LONGEST] for line in lines if not _is_row(line)]
    condition, message = _condition(text, messages)
    named = _BUS_ID.search(message) or next(filter(None, map(_BUS_ID.search, messages)), None)
    library = _LIBRARY.search(text)
    gpus = smi_table.gpus(text)
    rows = [line for line in lines if _is_row(line)]
    return SmiError(
        condition=condition,
        gpu_index=int(named.group("index")) if named and named.group("index") else None,
        bdf=named.group("bdf") if named else None,
        driver=smi_table.driver(text) or _driver_of_xml(text),
        nvml_library=library.group(1) if library else None,
        n_gpus=len(gpus) or (0 if _says(messages, "no-devices") else None),
        gpus=gpus,
        rows=smi_csv.table(rows).rows if rows else (),
    )


def unreachable(text: str) -> Iterator[Unreachable]:
    """One for each line that says that a card's handle could not be had."""
    for line in (one[:_LONGEST] for one in text.splitlines()):
        named = _BUS_ID.search(line)
        if named is not None and _says([line], "gpu-handle-error"):
            yield Unreachable(named.group("bdf"), line.strip())


def _condition(text: str, messages: list[str]) -> tuple[str | None, str]:
    """The condition and the line that tells it."""
    if not text.strip():
        return "empty", ""
    if smi_xml.is_xml(text) and not smi_xml.is_whole(text):
        return "truncated-xml", ""
    # A message can go on in the next line.
    pairs = [f"{line.strip()} {following.strip()}" for line, following in zip(messages, messages[1:])]
    for condition, words in _CONDITIONS:
        for line in (*messages, *pairs):
            if words.search(line):
                return condition, line
    return None, ""


def _says(messages: list[str], condition: str) -> bool:
    words = dict(_CONDITIONS)[condition]
    return any(words.search(line) for line in messages)


def _outside(text: str) -> str:
    """The text without an XML document, whole or cut."""
    if smi_xml.is_xml(text) and not smi_xml.is_whole(text):
        return ""
    return smi_xml.around(text)


def _is_structure(line: str) -> bool:
    """Whether the line is part of a table, of a piece of XML, or of `-q`."""
    return smi_table.is_line(line) or line.lstrip().startswith("<") or _OF_QUERY.match(line[:_LONGEST]) is not None


def _is_row(line: str) -> bool:
    """Whether the line is one of comma-separated values and no message."""
    if ", " not in line or _SENTENCE.match(line) or _PROSE.search(_WORDED_CELL.sub("", line[:_LONGEST])):
        return False
    return not any(words.search(line[:_LONGEST]) for _condition, words in _CONDITIONS)


def _driver_of_xml(text: str) -> str | None:
    found = _XML_DRIVER.search(text)
    version = found.group(1).strip() if found else ""
    return version if version not in {"", "N/A"} else None
