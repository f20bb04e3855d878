# SPDX-License-Identifier: Apache-2.0
"""What a node still has to give while replicas are placed: free devices, unpromised memory and disk, free ports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from llmgw.model.ids import DeviceClass, DeviceId
from llmgw.model.node import Device, Node
from llmgw.model.replica import ModelSpec, ProfileSpec
from llmgw.placement.disks import Disks, Key, Room


class Ledger:
    """Promises on one node. Mutable and short-lived: it exists while one placement is computed.

    `taken` is a bit mask over `node.devices`; together with what the devices are it tells all that is free, so that
    equal nodes in equal states are recognised without looking at their devices.
    """

    def __init__(self, node: Node, port_range: tuple[int, int], disks: Disks | None = None) -> None:
        self.node = node
        self.signature = 0
        """Equal for nodes of which no constraint that only reads facts can tell one from another; the board's."""
        self.shape = 0
        """Equal for nodes whose devices are alike and joined alike; the board's."""
        self.state = 0
        """Equal for ledgers of one signature and shape with the same devices taken and as many replicas."""
        self.taken = 0
        self.vacating = 0
        """Of the free devices those of a replica which must leave and has no other place yet: it goes on serving there
        unless somebody else needs them.
        """
        self.replicas: dict[str, int] = {}
        """Number of replicas here, by service."""
        self.total = 0
        """Number of replicas here."""
        self.classes = tuple(sorted({device.device_class for device in node.devices or ()}))
        self._bit = {device.uuid: 1 << position for position, device in enumerate(node.devices or ())}
        self._first_port, self._last_port = port_range
        system = node.facts.system if node.facts else None
        self._ports: set[int] = set(system.listening_ports or ()) if system else set()
        self._held_ports: Counter[int] = Counter()
        self._next_port = self._first_port
        memory = node.facts.memory if node.facts else None
        self.total_memory = None if memory is None else memory.total_bytes
        """Bytes of host memory, promised or not; None when the node reports none."""
        self._memory_bytes = self.total_memory
        self._disks = disks or Disks()
        self._free: dict[str, tuple[Device, ...]] = {}
        self._holders: Counter[DeviceId] = Counter()  # units may name one device twice, whatever was planned

    def devices(self, device_class: str) -> tuple[Device, ...]:
        """All devices of a class that are not out of order, free or not, in placement order; of two with one UUID the
        last, by which it is known.
        """
        known = self.node.devices or ()
        return tuple(
            device
            for position, device in enumerate(known)
            if device.device_class == device_class and _works(device) and self._bit[device.uuid] == 1 << position
        )

    def free_devices(self, device_class: str) -> tuple[Device, ...]:
        """Devices of a class that nothing uses, blocks or holds memory on, in placement order."""
        free = self._free.get(device_class)
        if free is None:
            free = tuple(device for device in self.devices(device_class) if self._is_free(device))
            self._free[device_class] = free
        return free

    def _is_free(self, device: Device) -> bool:
        return not self.taken & self._bit[device.uuid]

    def is_whole(self) -> bool:
        """Whether no replica has any of its devices."""
        return not self.taken

    def unpromised_memory(self) -> int | None:
        """Bytes of host memory that no replica was promised; None when the node reports none (P2)."""
        return self._memory_bytes

    def memory_is_promised(self) -> bool:
        """Whether replicas were promised some of its host memory."""
        return self.total_memory != self._memory_bytes

    def room(self, model: ModelSpec, *, at_first: tuple[Key, int] | None = None) -> Room | None:
        """The most disk space on one filesystem that weights of this model may fill; None when it is unknown (D11).
        `at_first`: a filesystem that is taken before all others if so many bytes are free there.
        """
        return self._disks.room(self.node, model, at_first=at_first)

    def begun(self, model: ModelSpec) -> int:
        """Bytes of the model that a fetch has brought here already."""
        return self._disks.begun(self.node, model)

    def most_disk(self) -> int | None:
        """The most bytes that are free on one filesystem, promised or not; None when that is unknown."""
        return self._disks.most(self.node)

    def free_port(self, count: int = 1) -> int | None:
        """The lowest port of the range that is free with the `count` - 1 after it, or None."""
        while self._next_port in self._ports:
            self._next_port += 1
        if count == 1:
            return self._next_port if self._next_port <= self._last_port else None
        for port in range(self._next_port, self._last_port + 2 - count):
            if not any(one in self._ports for one in range(port, port + count)):
                return port
        return None

    def has_free(self, devices: Iterable[DeviceId], ports: Iterable[int]) -> bool:
        """Whether nobody has any of these devices and ports."""
        return not self.taken & self.mask(devices) and self._ports.isdisjoint(ports)

    def reserve_ports(self, ports: range) -> None:
        """The ports of one unit: it holds them already, and where it leaves only while this plan is carried out."""
        self._ports.update(ports)
        self._held_ports.update(ports)

    def row_is_its_own(self, port: int, held: int, needed: int) -> bool:
        """Whether the unit that holds `held` ports from `port` on may have `needed` of them: no other unit holds one
        after the first, and those beyond what it holds are free.
        """
        shared = any(self._held_ports[one] > 1 for one in range(port + 1, port + min(held, needed)))
        return not shared and all(
            self._first_port <= one <= self._last_port and one not in self._ports
            for one in range(port + held, port + needed)
        )

    def promise(self, service: str, profile: ProfileSpec, devices: Iterable[DeviceId], ports: Iterable[int]) -> None:
        """Take everything one member of a replica needs, but for disk space."""
        devices = tuple(devices)
        self._holders.update(devices)
        self.taken |= self.mask(devices)
        self._free.clear()
        self._ports.update(ports)
        if self._memory_bytes is not None:
            self._memory_bytes -= profile.min_memory_bytes or 0
        self.replicas[service] = self.replicas.get(service, 0) + 1
        self.total += 1

    def release(self, service: str, profile: ProfileSpec, devices: Iterable[DeviceId], ports: Iterable[int]) -> None:
        """Give back what `promise` took."""
        self._holders.subtract(devices := tuple(devices))
        self.taken &= ~self.mask(device for device in devices if not self._holders[device])
        self._free.clear()
        for port in ports:
            self._ports.discard(port)
            self._next_port = min(self._next_port, max(port, self._first_port))
        if self._memory_bytes is not None:
            self._memory_bytes += profile.min_memory_bytes or 0
        self.replicas[service] -= 1
        if not self.replicas[service]:
            del self.replicas[service]
        self.total -= 1

    def vacate(self, devices: Iterable[str], *, still: bool) -> None:
        """Note that what has these devices must leave; with `still` False, that it does."""
        mask = self.mask(DeviceId(device) for device in devices)
        self.vacating = self.vacating | mask if still else self.vacating & ~mask

    def mask(self, devices: Iterable[DeviceId]) -> int:
        """These devices as bits over the node's devices."""
        mask = 0
        for uuid in devices:
            mask |= self._bit.get(uuid, 0)
        return mask

    def free_mask(self, device_class: DeviceClass) -> int:
        """The free devices of a class as bits over the node's devices."""
        return self.mask(device.uuid for device in self.free_devices(device_class))


def _works(device: Device) -> bool:
    return not device.blocked_by and not device.kept_away_by
