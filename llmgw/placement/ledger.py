# SPDX-License-Identifier: Apache-2.0
"""What a node still has to give while replicas are placed: free devices, unpromised memory and disk, free ports."""

from __future__ import annotations

from collections.abc import Iterable

from llmgw.model.ids import DeviceId
from llmgw.model.node import Device, Node
from llmgw.model.replica import ProfileSpec


class Ledger:
    """Promises on one node. Mutable and short-lived: it exists while one placement is computed."""

    def __init__(self, node: Node, port_range: tuple[int, int]) -> None:
        self.node = node
        self._ports = port_range
        self._used_devices: set[DeviceId] = set()
        system = node.facts.system if node.facts else None
        self._used_ports: set[int] = set(system.listening_ports or ()) if system else set()
        self._free: dict[str, tuple[Device, ...]] = {}  # asked for every replica on every node, changed by few of them
        self._memory_bytes = 0
        self.replicas: dict[str, int] = {}
        """Number of replicas here, by service."""

    @property
    def total(self) -> int:
        """Number of replicas here."""
        return sum(self.replicas.values())

    def free_devices(self, device_class: str) -> tuple[Device, ...]:
        """Devices of a class that nothing uses, blocks or holds memory on, in placement order."""
        free = self._free.get(device_class)
        if free is None:
            found = (device for device in self.node.devices or () if device.device_class == device_class)
            free = self._free[device_class] = tuple(filter(self._usable, found))
        return free

    def _usable(self, device: Device) -> bool:
        return device.uuid not in self._used_devices and not device.blocked_by and not device.kept_away_by

    def unpromised_memory(self) -> int | None:
        """Bytes of host memory that no replica was promised; None when the node reports none (P2)."""
        memory = self.node.facts.memory if self.node.facts else None
        return None if memory is None or memory.total_bytes is None else memory.total_bytes - self._memory_bytes

    def free_port(self) -> int | None:
        """The lowest port of the range that nothing uses, or None."""
        low, high = self._ports
        return next((port for port in range(low, high + 1) if port not in self._used_ports), None)

    def reserve_ports(self, ports: Iterable[int]) -> None:
        """Ports that units hold already, or that leave only while this plan is carried out."""
        self._used_ports.update(ports)

    def promise(self, service: str, profile: ProfileSpec, devices: Iterable[DeviceId], port: int) -> None:
        """Take everything one replica needs."""
        self._used_devices.update(devices)
        self._free.clear()
        self._used_ports.add(port)
        self._memory_bytes += profile.min_memory_bytes or 0
        self.replicas[service] = self.replicas.get(service, 0) + 1
