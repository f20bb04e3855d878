# SPDX-License-Identifier: BSD-2-Clause
"""Everything a node reports, in one call (D1-D15): runs every probe within its time and keeps what the others found.

Private to llmgw. A probe that fails costs its own part, which stays unknown, and gives a finding that says why.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Mapping, NamedTuple, Sequence, TypeVar

from ansible_collections.llmgw.fleet.plugins.module_utils import observed, readiness, systemd
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import (
    Finding,
    GatewayFacts,
    NodeFacts,
    ObservedUnit,
    Probe,
    Weights,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    engines,
    gateway_facts,
    gpu_build,
    nvidia_smi,
    storage,
    system_facts,
    weights,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, within
from ansible_collections.llmgw.fleet.plugins.module_utils.state_files import Record, StateFiles

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.unitfile import Header

DEFAULT_TIMEOUT_S = 60.0
_SYSTEM_S = 10.0
_UNITS_S = 25.0
_CARDS_S = 45.0
_STORAGE_S = 20.0
_WEIGHTS_S = 15.0
_ENGINES_S = 25.0
_GATEWAY_S = 5.0
_READY_S = 1.0
# Part of the cards' time that is for asking the driver; the rest is for making sense of what it said.
_ASKING = 0.9
_T = TypeVar("_T")


@dataclass(frozen=True)
class Options:
    """What to look at. `state_dir` None: the scope's usual one. No `model_dirs`: no weights are looked for (D12)."""

    scope: str = systemd.SYSTEM
    state_dir: str | None = None
    model_dirs: Sequence[str] | None = None
    engine_commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gateway_bundle: str | None = None
    gateway_admin_url: str | None = None
    gateway_admin_token_file: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    module_version: str | None = None


class _Marked(NamedTuple):
    """What the state directory says: highest generation, and whether a command cordoned or drained the node."""

    generation: int | None = None
    cordoned: bool | None = None
    drained: bool | None = None


def collect(host: Host, options: Options) -> NodeFacts:
    """The facts of this machine, within `options.timeout_s` seconds. Never raises for what a machine can do wrong."""
    probes = _Probes(time.monotonic() + options.timeout_s)
    scope = options.scope
    state_dir = options.state_dir or _usual_state_dir(host, scope)
    model_dirs = tuple(options.model_dirs or ())
    system = probes.ask("system", _SYSTEM_S, lambda: system_facts.read_system(host, scope))
    memory = probes.ask("memory", _SYSTEM_S, lambda: system_facts.read_memory(host))
    cpu = probes.ask("cpu", _SYSTEM_S, lambda: system_facts.read_cpu(host))
    units = probes.ask("units", _UNITS_S, lambda: _units(host, scope, state_dir))
    marked = probes.ask("state", _SYSTEM_S, lambda: _state(host, state_dir)) or _Marked()
    cards_s = probes.left(_CARDS_S)
    cards = probes.ask("gpus", cards_s, lambda: nvidia_smi.read_cards(host, cards_s * _ASKING)) or gpu_build.Cards(None)
    disks = probes.ask("storage", _STORAGE_S, lambda: storage.read_storage(host, (*model_dirs, state_dir)))
    found = _weights(host, model_dirs, disks, probes) if model_dirs and disks else None
    installed = probes.ask("engines", _ENGINES_S, lambda: engines.read_engines(host, scope, options.engine_commands))
    gateway, gateway_findings = _gateway(host, options, probes)
    return NodeFacts(
        module_version=options.module_version,
        collected_at=host.clock(),
        system=system,
        memory=memory,
        cpu=cpu,
        driver=cards.driver,
        gpus=cards.gpus,
        filesystems=disks.filesystems if disks else None,
        weights=found,
        engines=installed,
        units=units,
        foreign_engines=None if cards.gpus is None else gpu_build.foreign_engines(cards.gpus),
        generation=marked.generation,
        cordoned=marked.cordoned,
        drained=marked.drained,
        gateway=gateway,
        findings=(*cards.findings, *(disks.findings if disks else ()), *gateway_findings, *probes.findings),
        probes=tuple(probes.done),
    )


class _Probes:
    """Runs the parts one after the other and keeps how each went; `deadline` is of time.monotonic."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.done: list[Probe] = []
        self.findings: list[Finding] = []

    def left(self, at_most_s: float) -> float:
        """Seconds that a part may take."""
        return max(0.0, min(at_most_s, self._deadline - time.monotonic()))

    def ask(self, name: str, at_most_s: float, probe: Callable[[], _T]) -> _T | None:
        """What the probe returns; None, and a finding, when it raises or takes too long."""
        begun = time.monotonic()
        try:
            value = self._within(self.left(at_most_s), probe)
        except Exception as error:  # noqa: BLE001 - whatever a machine does to a probe, the others go on (D15)
            detail = " ".join(f"{type(error).__name__}: {error}".split())
            self.done.append(Probe(name, _since(begun), ok=False, detail=detail))
            self.findings.append(_failed(name, detail))
            return None
        self.done.append(Probe(name, _since(begun), ok=True))
        return value

    @staticmethod
    def _within(seconds: float, probe: Callable[[], _T]) -> _T:
        # A probe that could not be waited for is not begun: what it starts would outlive the module.
        if seconds <= 0:
            raise TimeoutError("no time was left for it")
        return within(seconds, probe)


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 4)


def _failed(name: str, detail: str) -> Finding:
    return Finding(
        code="probe-failed",
        severity="warn",
        message=f"the probe '{name}' failed, so its facts are unknown: {detail}",
        remedy="Mend what it names, then look again: llmgw facts refresh.",
    )


def _usual_state_dir(host: Host, scope: str) -> str:
    return "/var/lib/llmgw" if scope == systemd.SYSTEM else f"{host.home()}/.local/state/llmgw"


def _units(host: Host, scope: str, state_dir: str) -> tuple[ObservedUnit, ...]:
    manager = systemd.Manager(host, scope)
    return observed.observe_units(host, manager, state_dir, lambda header, record: _serves(host, header, record))


def _weights(
    host: Host, model_dirs: Sequence[str], disks: storage.Storage, probes: _Probes
) -> tuple[Weights, ...] | None:
    """Weights in the directories that answer: one on a dead share would hold up the search in the others."""
    alive = [path for path in model_dirs if path in disks.answering]
    return probes.ask("weights", _WEIGHTS_S, lambda: weights.read_weights(host, alive, disks.filesystems or ()))


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


def _state(host: Host, state_dir: str) -> _Marked:
    """Generation and markers; a state directory that is there and cannot be read says nothing about markers."""
    names = host.list(state_dir)
    if names is None and host.exists(state_dir):
        return _Marked()
    present = names or ()
    return _Marked(StateFiles(host, state_dir).generation(), "cordoned" in present, "drained" in present)


def _gateway(host: Host, options: Options, probes: _Probes) -> tuple[GatewayFacts | None, tuple[Finding, ...]]:
    if options.gateway_bundle is None and options.gateway_admin_url is None:
        return None, ()
    answer = probes.ask(
        "gateway",
        _GATEWAY_S,
        lambda: gateway_facts.read_gateway(
            host, options.gateway_bundle, options.gateway_admin_url, options.gateway_admin_token_file
        ),
    )
    return answer or (None, ())
