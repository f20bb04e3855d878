# SPDX-License-Identifier: Apache-2.0
"""The machines of the showcase, whole and with nothing on them: what each reports on a good day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from llmgw.fleet.hosts import Host
from llmgw.nodekit import contract, version
from tests.support.showcase import cards, disks, ports, rack, timing
from tests.support.showcase.holdings import weights_on
from tests.support.showcase.invented import DAY, GB, NOW, between, identity

GENERATION = 41
"""The highest generation that the nodes have seen."""
_X86 = ("avx", "avx2", "avx512_bf16", "avx512_vnni", "avx512bw", "avx512f", "avx512vl", "f16c", "fma", "sse4_2")
_ARM = ("asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2")
_XEON = contract.Cpu("Intel(R) Xeon(R) Platinum 8480C", 2, 96, 192, 2, (*_X86, "amx_bf16", "amx_int8", "amx_tile"))
_EPYC = contract.Cpu("AMD EPYC 9354 32-Core Processor", 2, 64, 128, 2, _X86)
_GRACE = contract.Cpu("Neoverse-V2", 2, 144, 144, 2, _ARM)
_LARGE = contract.Cpu("AMD EPYC 9555 64-Core Processor", 1, 64, 128, 1, _X86)
_SMALL = contract.Cpu("Intel(R) Xeon(R) E-2224 CPU @ 3.40GHz", 1, 4, 4, 1, ("avx", "avx2", "f16c", "fma", "sse4_2"))
_ENGINES = {
    "vllm": contract.Engine("vllm", ("/opt/llmgw/engines/vllm/bin/vllm",), "0.33.0"),
    "sglang": contract.Engine("sglang", ("/opt/llmgw/engines/sglang/bin/sglang",), "0.5.23"),
    "llama.cpp": contract.Engine(
        "llama.cpp", ("/opt/llmgw/engines/llama.cpp/bin/llama-server",), "b11434", runnable=True
    ),
}


@dataclass(frozen=True)
class _Kind:
    """What machines of one kind have alike."""

    board: cards.Board | None
    cpu: contract.Cpu
    memory_bytes: int
    engines: tuple[str, ...]
    lustre: bool = False
    looks_for_weights: bool = True
    disk_tb: float = 7.7


_KINDS = {
    "h100": _Kind(cards.HGX_H100, _XEON, 2164 * GB, ("vllm", "sglang"), lustre=True),
    "h200": _Kind(cards.HGX_H200, _XEON, 2164 * GB, ("vllm", "sglang"), disk_tb=15.4),
    "l40s": _Kind(cards.L40S, _EPYC, 541 * GB, ("vllm",)),
    "a100-mig": _Kind(cards.A100_SXM, _EPYC, 1082 * GB, ("vllm",)),
    "a100-pcie": _Kind(cards.A100_PCIE, _LARGE, 1082 * GB, ("vllm", "sglang"), looks_for_weights=False),
    "gb200": _Kind(cards.GB200, _GRACE, 1026 * GB, ("vllm", "sglang"), disk_tb=15.4),
    "cpu": _Kind(None, _LARGE, 270 * GB, ("llama.cpp",), disk_tb=1.9),
    "cpu-small": _Kind(None, _SMALL, 8_200_000_000, ("llama.cpp",), disk_tb=0.9),
}
_SMALL_HOSTS = ("cpu-4", "cpu-5", "cpu-6")
_FIRST_NUMBER = {"h100-a": 0x100, "h100-b": 0x200, "gb200-": 0x300}


def machines(hosts: Iterable[Host], unread: frozenset[str]) -> dict[str, contract.NodeFacts]:
    """Facts of every node that was ever read, by name."""
    nodes = [host for host in hosts if host.node and host.name not in unread]
    seen = _ports(nodes)
    in_rack = trays(nodes)
    return {host.name: _machine(host, seen[host.name], in_rack) for host in nodes}


def trays(hosts: Iterable[Host]) -> dict[str, str]:
    """Addresses of the trays of the rack, by name."""
    return {host.name: str(host.variables["llmgw_address"]) for host in hosts if host.name.startswith("gb200-")}


def gateway(host: Host, known: contract.GatewayFacts) -> contract.NodeFacts:
    """Facts of a gateway host that is no node."""
    kind = replace(_KINDS["cpu-small"], engines=(), looks_for_weights=False)
    facts = _with_interfaces(_facts(host.name, kind, (), (), ("gateway",)), host)
    return replace(facts, gateway=known, weights=None)


def _machine(host: Host, found: tuple[contract.RdmaPort, ...], in_rack: Mapping[str, str]) -> contract.NodeFacts:
    name = host.name
    kind = _KINDS[_kind_of(name)]
    gpus = _cut(name, cards.cards(name, kind.board)) if kind.board else ()
    facts = _with_interfaces(_facts(name, kind, gpus, found, ("imex",) if name in in_rack else ()), host)
    return rack.joined(facts, name, in_rack) if name in in_rack else facts


def _facts(
    name: str,
    kind: _Kind,
    gpus: tuple[contract.Gpu, ...],
    found: tuple[contract.RdmaPort, ...],
    more: tuple[str, ...],
) -> contract.NodeFacts:
    boot = identity(name, "boot")
    own = disks.local(name, kind.disk_tb)
    shared = (disks.LUSTRE,) if kind.lustre else ()
    return contract.NodeFacts(
        module_version=version(),
        collected_at=timing.read_at(name),
        hardware_key=f"{boot} {cards.DRIVER.driver_version if gpus else 'no driver'}",
        system=_system(name, boot, kind.cpu),
        memory=contract.Memory(kind.memory_bytes, kind.memory_bytes * between(88, 95, name, "memory") // 100),
        cpu=kind.cpu,
        driver=cards.DRIVER if gpus else None,
        gpus=gpus,
        rdma_ports=found,
        filesystems=tuple(sorted((*own, *shared), key=lambda one: one.mount_point)),
        weights=weights_on(name, own[1], lustre=kind.lustre, small=kind.cpu is _SMALL)
        if kind.looks_for_weights
        else None,
        engines=tuple(sorted((_ENGINES[one] for one in kind.engines), key=lambda one: one.kind)),
        units=(),
        foreign_engines=(),
        generation=GENERATION,
        cordoned=False,
        drained=False,
        probes=timing.probes(name, _there(gpus, found, more, weights=kind.looks_for_weights)),
    )


def _there(
    gpus: tuple[contract.Gpu, ...], found: tuple[contract.RdmaPort, ...], more: tuple[str, ...], *, weights: bool
) -> dict[str, bool]:
    return {
        "gateway": "gateway" in more,
        "imex": "imex" in more,
        "subnets": any(port.kind == "infiniband" for port in found),
        "topology": bool(gpus),
        "weights": weights,
        "xids": bool(gpus),
    }


def _kind_of(name: str) -> str:
    if name in _SMALL_HOSTS:
        return "cpu-small"
    return max((kind for kind in _KINDS if name.startswith(kind)), key=len)


def _system(name: str, boot: str, cpu: contract.Cpu) -> contract.System:
    return contract.System(
        hostname=name,
        os="ubuntu",
        os_version="24.04",
        kernel="6.8.0-87-generic-64k" if cpu is _GRACE else "6.8.0-87-generic",
        architecture="aarch64" if cpu is _GRACE else "x86_64",
        boot_id=boot,
        booted_at=NOW - between(3, 90, name, "up") * DAY,
        clock=timing.read_at(name),
        python_version="3.12.3",
        systemd_version=255,
        scope="system",
        journal=True,
        ephemeral_ports=(32768, 60999),
        listening_ports=(22, 9100),
    )


def _with_interfaces(facts: contract.NodeFacts, host: Host) -> contract.NodeFacts:
    """The facts with the interfaces of the machine: its own address, and those of its rails."""
    rails = [port for port in facts.rdma_ports or () if port.kind == "roce" and port.netdev != "bond0"]
    own = contract.NetworkInterface("bond0", (str(host.variables["llmgw_address"]),), up=True, speed_mbps=200_000)
    interfaces = (
        own,
        contract.NetworkInterface("lo", ("127.0.0.1", "::1"), up=True),
        *(contract.NetworkInterface(port.netdev or "", port.addresses, up=True, speed_mbps=400_000) for port in rails),
    )
    return replace(facts, system=facts.system and replace(facts.system, interfaces=interfaces))


def _ports(nodes: Iterable[Host]) -> dict[str, tuple[contract.RdmaPort, ...]]:
    found: dict[str, tuple[contract.RdmaPort, ...]] = {}
    cabled: dict[str, str] = {}
    for host in nodes:
        name, address = host.name, str(host.variables["llmgw_address"])
        prefix = next((prefix for prefix in _FIRST_NUMBER if name.startswith(prefix)), None)
        if prefix is not None:
            number = _FIRST_NUMBER[prefix] + int(name.removeprefix(prefix))
            slots = ports.TRAY_SLOTS if prefix == "gb200-" else ports.HGX
            own = ports.infiniband(number, slots)
            found[name] = (*own, ports.north(f"mlx5_{len(slots)}", address, slot=ports.north_slot(slots)))
            cabled[name] = {"h100-a": "ib-a", "h100-b": "ib-b", "gb200-": "ib-c"}[prefix]
        elif name.startswith("h200-"):
            found[name] = (*ports.rails(10 + int(name.removeprefix("h200-"))), ports.north("mlx5_8", address))
        else:
            found[name] = ()
    return ports.in_subnets(found, cabled, CROSSED)


CROSSED = {("h100-a3", "mlx5_3"): "ib-b"}
"""A cable that leads into the other fabric."""


def _cut(name: str, gpus: tuple[contract.Gpu, ...]) -> tuple[contract.Gpu, ...]:
    """The cards, with those in MIG mode that are."""
    halves, slices = ("3g.40gb",) * 2, ("1g.10gb",) * 7
    plans: dict[str, dict[int, tuple[str, ...]]] = {
        "a100-mig-1": {0: halves, 1: slices, 2: halves},
        "a100-mig-2": {0: halves, 1: slices},
        "a100-mig-3": {0: slices, 1: ()},
    }
    plan = plans.get(name, {})
    off = frozenset(card.uuid for card in gpus if card.index in plan and card.uuid)
    made = tuple(cards.cut(name, card, *plan[card.index]) if card.index in plan else card for card in gpus)
    return cards.without_links_to(made, off) if off else made
