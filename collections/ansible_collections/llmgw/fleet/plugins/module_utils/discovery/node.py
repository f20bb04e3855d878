# SPDX-License-Identifier: BSD-2-Clause
"""Everything a node reports, in one call (D1-D18): runs the parts within their time and keeps what the others found.

Private to llmgw. A part that fails costs itself: it stays unknown, and a finding says why. Parts that the caller knows
already are left out, and the caller joins the answer with what it has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

from ansible_collections.llmgw.fleet.plugins.module_utils import node_marks, observed, readiness, systemd
from ansible_collections.llmgw.fleet.plugins.module_utils.applied import Applied
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NodeFacts, ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    engines,
    parts,
    presence,
    storage,
    system_facts,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.probes import Probes
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
        Filesystem,
        ForeignEngine,
        GatewayFacts,
        Gpu,
        GpuDriver,
        Imex,
        RdmaPort,
        Weights,
    )
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
    from ansible_collections.llmgw.fleet.plugins.module_utils.unitfile import Header

DEFAULT_TIMEOUT_S = 60.0
_SYSTEM_S = 10.0
_UNITS_S = 25.0
_STORAGE_S = 20.0
_WEIGHTS_S = 15.0
_ENGINES_S = 25.0
_GATEWAY_S = 5.0
_READY_S = 1.0
_DRIVER_VERSION = "/sys/module/nvidia/version"
_BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Options:
    """What to look at. `state_dir` None: the scope's usual one. No `model_dirs`: no weights are looked for (D12).

    `gather` names parts (`parts.chosen`); `known_key` is the `hardware_key` of the facts that the caller has.
    """

    scope: str = systemd.SYSTEM
    state_dir: str | None = None
    prefix: str | None = None
    model_dirs: Sequence[str] | None = None
    engine_commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gateway_bundle: str | None = None
    gateway_admin_url: str | None = None
    gateway_admin_token_file: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    module_version: str | None = None
    gather: Sequence[str] = ("all",)
    known_key: str | None = None


class _State(NamedTuple):
    """What the state directory says: the plan of the highest generation, and the marks that commands made; None:
    unknown.
    """

    applied: Applied = Applied()
    marks: node_marks.Marks | None = None


class _Cards(NamedTuple):
    """What there is about cards; `gpus` None: they are unknown."""

    gpus: tuple[Gpu, ...] | None
    driver: GpuDriver | None = None
    foreign: tuple[ForeignEngine, ...] | None = ()
    imex: Imex | None = None


def collect(host: Host, options: Options) -> NodeFacts:
    """The facts of this machine, within `options.timeout_s` seconds. Never raises for what a machine can do wrong.

    Raises ValueError when `options.gather` names a part that does not exist.
    """
    key = hardware_key(host)
    wanted = parts.needed(options.gather, key, options.known_key)
    probes = Probes(host, time.monotonic() + options.timeout_s, wanted)
    scope = options.scope
    state_dir = options.state_dir or _usual_state_dir(host, scope)
    system = probes.ask("system", _SYSTEM_S, lambda: system_facts.read_system(host, scope))
    memory = probes.ask("memory", _SYSTEM_S, lambda: system_facts.read_memory(host))
    cpu = probes.ask("cpu", _SYSTEM_S, lambda: system_facts.read_cpu(host))
    units = probes.ask("units", _UNITS_S, lambda: _units(host, scope, state_dir))
    state = probes.ask("state", _SYSTEM_S, lambda: _state(host, state_dir)) or _State()
    marks = state.marks
    probes.found("state", marks.findings if marks else ())
    found = _cards(host, probes, system.booted_at if system else None, state_dir)
    ports = _ports(host, probes)
    filesystems, weights = _disks(host, probes, tuple(options.model_dirs or ()), state_dir)
    commands, prefix = options.engine_commands, options.prefix
    installed = probes.ask("engines", _ENGINES_S, lambda: engines.read_engines(host, scope, commands, prefix))
    gateway = _gateway(host, options, probes)
    return NodeFacts(
        module_version=options.module_version,
        collected_at=host.clock(),
        hardware_key=key,
        gathered=None if wanted == frozenset(parts.ALL) else tuple(sorted(wanted)),
        system=system,
        memory=memory,
        cpu=cpu,
        driver=found.driver,
        gpus=found.gpus,
        imex=found.imex,
        rdma_ports=ports,
        filesystems=filesystems,
        weights=weights,
        engines=installed,
        units=units,
        foreign_engines=found.foreign,
        generation=state.applied.generation,
        applied_by=state.applied.by,
        applied_at=state.applied.at,
        cordoned=marks.cordoned if marks else None,
        drained=marks.drained if marks else None,
        cordon_mark=marks.cordon if marks else None,
        drain_mark=marks.drain if marks else None,
        quarantined=marks.quarantined if marks else None,
        gateway=gateway,
        findings=tuple(probes.findings),
        probes=tuple(probes.done),
    )


def hardware_key(host: Host) -> str | None:
    """What facts about the hardware hold for: this boot with this version of the driver; None when unreadable (D18)."""
    boot = (host.read(_BOOT) or b"").decode("ascii", "replace").strip()
    driver = (host.read(_DRIVER_VERSION) or b"").decode("ascii", "replace").strip()
    return f"{boot} {driver or 'no driver'}" if boot else None


def _usual_state_dir(host: Host, scope: str) -> str:
    return "/var/lib/llmgw" if scope == systemd.SYSTEM else f"{host.home()}/.local/state/llmgw"


def _cards(host: Host, probes: Probes, booted_at: float | None, state_dir: str) -> _Cards:
    if not presence.may_have_cards(host):
        return _Cards(probes.ask("gpus", _SYSTEM_S, tuple))
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import card_parts, gpu_build  # noqa: PLC0415

    found = card_parts.read_cards(host, probes, booted_at, state_dir)
    foreign = None if found.gpus is None else gpu_build.foreign_engines(found.gpus)
    return _Cards(found.gpus, found.driver, foreign, card_parts.read_imex(host, probes, found.gpus))


def _ports(host: Host, probes: Probes) -> tuple[RdmaPort, ...] | None:
    if not presence.may_have_adapters(host):
        return probes.ask("rdma", _SYSTEM_S, tuple)
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import adapter_parts  # noqa: PLC0415

    return adapter_parts.read_ports(host, probes)


def _disks(
    host: Host, probes: Probes, model_dirs: tuple[str, ...], state_dir: str
) -> tuple[tuple[Filesystem, ...] | None, tuple[Weights, ...] | None]:
    """Filesystems, and the weights in the directories that answer: a dead share would hold up the search elsewhere."""
    disks = probes.ask("storage", _STORAGE_S, lambda: storage.read_storage(host, model_dirs, state_dir))
    if disks is None:
        return None, None
    probes.found("storage", disks.findings)
    if not model_dirs:
        return disks.filesystems, None
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights  # noqa: PLC0415 - where they are

    alive = [path for path in model_dirs if path in disks.answering]
    asking_s = probes.asking(_WEIGHTS_S)
    answer = probes.ask(
        "weights", _WEIGHTS_S, lambda: weights.read_weights(host, alive, disks.filesystems or (), asking_s)
    )
    if answer is None:
        return disks.filesystems, None
    probes.found("weights", answer[1])
    return disks.filesystems, answer[0]


def _units(host: Host, scope: str, state_dir: str) -> tuple[ObservedUnit, ...]:
    manager = systemd.Manager(host, scope)
    return observed.observe_units(host, manager, state_dir, lambda header, record: _serves(host, header, record))


def _serves(host: Host, header: Header, record: Record) -> bool | None:
    """Whether an engine serves its weights now; None when it does not answer in time, as a busy one may not."""
    usual = readiness.Readiness("http")
    asked = readiness.Readiness(
        kind="http",
        address=header.address,
        port=header.port,
        health_path=record.health_path or usual.health_path,
        models_path=record.models_path or usual.models_path,
        expect_model=record.expect_model or header.served_name,
    )
    word = readiness.ask(host, asked, _READY_S).word
    return None if word == readiness.SILENT else word == readiness.SERVING


def _state(host: Host, state_dir: str) -> _State:
    """Last plan and marks; a state directory that is there and cannot be read says nothing about marks."""
    names = host.list(state_dir)
    if names is None and host.exists(state_dir):
        return _State()
    return _State(StateFiles(host, state_dir).applied(), node_marks.read(host, state_dir, names or ()))


def _gateway(host: Host, options: Options, probes: Probes) -> GatewayFacts | None:
    if options.gateway_bundle is None and options.gateway_admin_url is None:
        return None
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import gateway_facts  # noqa: PLC0415

    answer = probes.ask(
        "gateway",
        _GATEWAY_S,
        lambda: gateway_facts.read_gateway(
            host, options.gateway_bundle, options.gateway_admin_url, options.gateway_admin_token_file
        ),
    )
    if answer is None:
        return None
    probes.found("gateway", answer[1])
    return answer[0]
