# SPDX-License-Identifier: Apache-2.0
"""The reference page of the catalog, written from the schema, so that neither can say what the other does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import get_args, get_origin

from pydantic.fields import FieldInfo

from llmgw.catalog import codes
from llmgw.catalog.schema.base import Entry, Later
from llmgw.catalog.schema.document import Slot, opened, places
from llmgw.catalog.schema.durations import Duration, shown
from llmgw.catalog.schema.words import words

EXAMPLE = """\
version: 1

models:
  smollm2:
    path: SmolLM2-135M-Instruct.Q4_1.gguf

profiles:
  smollm2-cpu:
    engine: llama.cpp
    model: smollm2
    devices: cpu
    threads: 2
    min_memory_gb: 1

services:
  chat:
    profiles: smollm2-cpu
    replicas: 2
    spread: node
"""

OVERLAY_EXAMPLE = """\
services:
  chat:
    replicas: 1
    spread: null
"""

_HEAD = f"""\
# The catalog

<!-- Written by `llmgw catalog schema --markdown`: change the schema, not this page. -->

The catalog says in YAML which models are served, how, and under which names. `llmgw catalog check` finds all that is
wrong with it, warns of what is likely a slip, and asks no host for that, so that it suits pre-commit and CI.
`llmgw catalog show` prints what it means, every default included. `llmgw catalog schema` prints a JSON Schema for
editors. A whole catalog:

```yaml
{EXAMPLE}```

## Files

A catalog is the file `catalog.yaml`, all `*.yaml` and `*.yml` files below the folder `catalog.d` beside it, and the
overlay `catalog.overlay.yaml` beside it. Only the first must be there. (For another file, `NAME.yaml`, the others are
`NAME.d` and `NAME.overlay.yaml`.) Names that begin with a dot are left out.

`version` and `services` must be in one of the files, every other key may be absent. The order of files and of keys
means nothing:

* `models`, `profiles`, `services`, `gateway`, `gateway.keys` and `fleet` may be in several files; what they hold is
  united.
* One name is defined in one file. The same model, profile, service, key or setting in two files is an error that names
  both places.
* A list is never joined from two files.

An overlay holds what differs in one environment. Mappings in it are merged, anything else replaces what it lies over,
and `null` takes away what it lies over (RFC 7386); a whole section with nothing in it changes nothing. Environments
that share a catalog have a fleet directory each, in which `catalog.yaml` is a symbolic link to the shared file and
`catalog.overlay.yaml` is their own. `--overlay FILE` tries another one on top. With this overlay the service of the
example has one replica and no `spread`:

```yaml
{OVERLAY_EXAMPLE}```

## YAML

Files are UTF-8, one document each, by the rules of YAML 1.2: `true` and `false` are truth values, `yes`, `no`, `on` and
`off` are text. Names are text: `405:` must be written `'405':`. Anchors, aliases and merge keys (`<<`) work within a
file, and keys at the top that begin with `x-` are yours to keep anchors in. Tags and templates are not expanded:
variables are Ansible's, and belong in the inventory.

* *Durations* are seconds (`90`) or have units: `500ms`, `90s`, `5m`, `1h30m`, `1d`.
* *Sizes* ending in `_gb` are GB of 10^9 bytes, those ending in `_mib` are MiB of 2^20 bytes.
* *Text* in `args`, `env` and `node_selector` may be a number; it is handed on as written, `0.10` as `0.10`.
* Where a list of such is taken too, a single value stands for a list of one.

All mistakes are reported at once, each with file, line and column, what is wrong, a code, and what to write instead.
"""


def reference() -> str:
    """The page as Markdown."""
    sections = ["\n".join(_section(entry, place)) for entry, place in places().items()]
    return "\n".join([_HEAD, *sections, "\n".join(_codes())])


def _section(entry: type[Entry], place: str) -> Iterator[str]:
    yield f"## {_title(place)}"
    yield ""
    yield str(entry.__doc__)
    yield ""
    yield "| key | takes | default | example | meaning |"
    yield "|---|---|---|---|---|"
    for name, field in entry.model_fields.items():
        slot = opened(field.annotation, tuple(field.metadata))
        later = slot.mark(Later)
        meaning = f"*Not in this version: {later.why}.* {field.description}" if later else str(field.description)
        cells = (f"`{name}`", _takes(slot), _default(slot, field), _example(field), meaning)
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _title(place: str) -> str:
    return f"`{place}`" if place else "The top level"


def _takes(slot: Slot) -> str:
    arguments = get_args(slot.annotation)
    inner = slot.entry or (opened(arguments[1]).entry if get_origin(slot.annotation) is dict else None)
    if inner is None:
        return words(slot)
    place = places()[inner]
    return f"{words(slot)}: [`{place}`](#{place.replace('.', '').lower()})"


def _default(slot: Slot, field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if value is None or isinstance(value, Entry) or value in ({}, ()):
        return ""
    return f"`{shown(value)}`" if slot.mark(Duration) else _yaml(value)


def _example(field: FieldInfo) -> str:
    return _yaml(field.examples[-1]) if field.examples else ""


def _yaml(value: object) -> str:
    """A value in YAML's flow style, which for these is JSON without quotes around plain words."""
    text = json.dumps(list(value) if isinstance(value, tuple) else value)
    return f"`{text}`" if " " in str(value) and isinstance(value, str) else f"`{text.replace(chr(34), '')}`"


def _codes() -> Iterator[str]:
    yield "## Codes of errors"
    yield ""
    yield "| code | what it says |"
    yield "|---|---|"
    for code, meaning in codes.MEANINGS.items():
        yield f"| `{code}` | {meaning} |"
    yield ""
    yield "`llmgw catalog check` warns of these, and ends with 0 where nothing else is wrong:"
    yield ""
    yield "| code | what it says |"
    yield "|---|---|"
    for code, meaning in codes.WARNINGS.items():
        yield f"| `{code}` | {meaning} |"
    yield ""
