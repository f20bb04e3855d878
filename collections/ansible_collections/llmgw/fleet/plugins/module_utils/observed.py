# SPDX-License-Identifier: BSD-2-Clause
"""The llmgw units of a node as they are: files, what systemd knows, what the processes were started with (D14).

Private to llmgw. One `systemctl show` answers for all units, those included whose file is gone but which still run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Callable, Iterable, NamedTuple

from ansible_collections.llmgw.fleet.plugins.module_utils import systemd, unit_states, unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

_ENVIRONMENT_LIMIT = 1024 * 1024
# A unit that llmgw writes has a few thousand bytes, and more than 64 KiB when a profile names many adapters. A text
# that facts leave out seems to differ from the wanted one on every plan. Without a limit, facts would be as large as
# whatever somebody puts there.
_TEXT_LIMIT = 512 * 1024
_NO_LIMIT = 2**63  # systemd writes "not set" as the largest number
_ENABLED = {"enabled": True, "enabled-runtime": True, "disabled": False}
_GONE = ("inactive", "")
_ALIVE = ("active", "reloading", "activating")

Probe = Callable[[unitfile.Header, Record], "bool | None"]


class Survey(NamedTuple):
    """All units, sorted by name, and the drop-ins that change one of them (paths by unit)."""

    units: tuple[ObservedUnit, ...]
    drop_ins: dict[str, tuple[str, ...]]


def observe_units(
    host: Host, manager: systemd.Manager, state_dir: str, probe: Probe | None = None
) -> tuple[ObservedUnit, ...]:
    """Every replica unit of the node, sorted by name. Raises SystemdError when the manager does not answer.

    `probe` tells whether an engine answers, from its unit's header and record; without one `ready` stays unknown.
    """
    return survey(host, manager, state_dir, probe).units


def survey(host: Host, manager: systemd.Manager, state_dir: str, probe: Probe | None = None) -> Survey:
    """`observe_units`, with the drop-ins found."""
    files = tuple(name for name in host.list(manager.unit_dir) or () if unitfile.is_replica_unit(name))
    shown = manager.show((systemd.LOADED_REPLICAS, *files))
    loaded = (name for name, said in shown.items() if unitfile.is_replica_unit(name) and _remains(said))
    state = StateFiles(host, state_dir)
    units = []
    drop_ins = {}
    for name in sorted({*files, *loaded}):
        said = shown.get(name, {})
        found = _drop_ins(host, manager, name, said)
        if found:
            drop_ins[name] = found
        units.append(_unit(name, host, manager, said, state, edited=bool(found), probe=probe))
    return Survey(tuple(units), drop_ins)


def texts(host: Host, paths: Iterable[str]) -> dict[str, str | None]:
    """What files beside units hold, by path; None where there is none. A link to nothing is told by its target: it is
    there, and goes like any other drop-in.
    """
    found: dict[str, str | None] = {}
    for path in paths:
        content = host.read(path)
        target = host.readlink(path) if content is None and not host.exists(path) else None
        found[path] = None if content is None else content.decode("utf-8", "replace")
        if target is not None:
            found[path] = f"a link to {target}, which is not there\n"
    return found


def running_digest(host: Host, said: systemd.Properties) -> str | None:
    """The process digest in the environment of a unit's main process; None when none runs or it cannot be read."""
    pid = _pid(said)
    environment = host.read(f"/proc/{pid}/environ", _ENVIRONMENT_LIMIT) if pid else None
    return unitfile.environment_digest(environment) if environment else None


def _unit(
    name: str,
    host: Host,
    manager: systemd.Manager,
    said: systemd.Properties,
    state: StateFiles,
    *,
    edited: bool,
    probe: Probe | None,
) -> ObservedUnit:
    content = host.read(f"{manager.unit_dir}/{name}")
    text = None if content is None else content.decode("utf-8", "replace")  # facts are JSON, whatever the file holds
    active = said.get("ActiveState") or None
    header = _without_file(name, active, state) if text is None else unitfile.parse(text)
    record = state.record(name)
    actual = None if content is None else unitfile.text_digest(content.decode("utf-8", "surrogateescape"))
    memory = _number(said.get("MemoryCurrent"))
    ready = _ready(active, header, record, probe)
    unit = ObservedUnit(
        name=name,
        replica=header.replica,
        rank=header.rank,
        members=header.members,
        profile=header.profile,
        model=header.model,
        engine=header.engine,
        served_name=header.served_name,
        address=header.address,
        port=header.port,
        devices=header.devices,
        active_state=active,
        sub_state=said.get("SubState") or None,
        result=said.get("Result") or None,
        enabled=_ENABLED.get(said.get("UnitFileState", "")),
        since=systemd.parse_timestamp(said.get("StateChangeTimestamp", "")),
        restarts=_number(said.get("NRestarts")),
        main_pid=_pid(said),
        memory_bytes=memory if memory is None or memory < _NO_LIMIT else None,
        memory_min_bytes=header.memory_min_bytes,
        ready=ready,
        process_digest=header.process_digest,
        running_digest=running_digest(host, said),
        text_digest=header.text_digest,
        actual_text_digest=actual,
        edited=None if actual is None else edited or actual != header.text_digest,
        needs_reload={"yes": True, "no": False}.get(said.get("NeedDaemonReload", "")),
        generation=record.generation,
        text=text if text is not None and len(text) <= _TEXT_LIMIT else None,
        memory_report=record.memory if record.process_digest == header.process_digest else None,
    )
    if probe is None:
        return unit
    look = _look(host, said, unit, header, record)
    # What an engine said before it ended is older than that end.
    since = unit.since if active == "active" else None
    # Its log is read only where it is not ready: that costs a process.
    found = unit_states.unit_state(look, lambda: manager.log(name, text, since))
    return replace(
        unit,
        state=found.state,
        state_since=found.since,
        deadline=found.deadline,
        reason=found.reason,
        progress=found.progress,
    )


def _look(
    host: Host, said: systemd.Properties, unit: ObservedUnit, header: unitfile.Header, record: Record
) -> unit_states.Look:
    return unit_states.Look(
        engine=header.engine,
        active_state=unit.active_state,
        sub_state=unit.sub_state,
        result=unit.result,
        since=unit.since,
        now=host.clock(),
        asked=_answers(header),
        serves=unit.ready,
        ready_at=record.ready_at if record.process_digest == unit.running_digest else None,
        start_timeout_s=header.start_timeout_s,
        ready_timeout_s=header.ready_timeout_s,
        stop_timeout_s=systemd.parse_span(said.get("TimeoutStopUSec", "")),
    )


def _without_file(name: str, active: str | None, state: StateFiles) -> unitfile.Header:
    """What is known of a unit whose file was deleted while it runs: as it was last ready, at least by its name.

    A replica that nobody can name would never be stopped, and another would be started in its place.
    """
    if active not in _ALIVE:
        return unitfile.Header()
    remembered = unitfile.parse(state.last_good(name) or "")
    return remembered if remembered.replica is not None else unitfile.named(name)


def _ready(active: str | None, header: unitfile.Header, record: Record, probe: Probe | None) -> bool | None:
    if active != "active":
        return None if active is None else False
    return probe(header, record) if probe is not None and _answers(header) else None


def _answers(header: unitfile.Header) -> bool:
    """Whether the unit's engine can be asked: members besides the leader have no readiness of their own (R7)."""
    return header.port is not None and not header.rank


def _drop_ins(host: Host, manager: systemd.Manager, name: str, said: systemd.Properties) -> tuple[str, ...]:
    """Files that change this unit alone: those systemd has read, and those beside the unit that it has not read yet.

    A distribution's drop-ins for all services (service.d) are nobody's edit of this unit.
    """
    own = f"/{name}.d/"
    beside = host.list(f"{manager.unit_dir}/{name}.d") or ()
    found = {path for path in said.get("DropInPaths", "").split() if own in path and host.exists(path)}
    found.update(f"{manager.unit_dir}{own}{file}" for file in beside if file.endswith(".conf"))
    return tuple(sorted(found))


def _remains(said: systemd.Properties) -> bool:
    """Whether something is left of a unit without a file: a process, or a failure to be forgotten."""
    return said.get("ActiveState", "") not in _GONE


def _pid(said: systemd.Properties) -> int | None:
    return _number(said.get("MainPID")) or None


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() else None
