# SPDX-License-Identifier: Apache-2.0
"""Interfaces and their addresses, as `ip -j address` prints them; what does not answer is unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.contract import NetworkInterface
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.network import read_interfaces
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Result
from ansible_collections.llmgw.fleet.plugins.module_utils.readings import ip_addresses
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support.fake_host import FakeHost


def entry(name: str, *addresses: tuple[str, str], flags: tuple[str, ...] = ("UP", "LOWER_UP")) -> dict[str, Any]:
    listed = [{"family": "inet", "local": address, "prefixlen": 24, "scope": scope} for address, scope in addresses]
    return {"ifindex": 1, "ifname": name, "flags": ["BROADCAST", *flags], "operstate": "UP", "addr_info": listed}


def machine(*entries: Any, speeds: dict[str, str] | None = None) -> FakeHost:
    files = {f"/sys/class/net/{name}/speed": text for name, text in (speeds or {}).items()}
    return FakeHost(files, commands={"ip -j address": json.dumps(entries)})


def test_interfaces_with_addresses_are_told_by_name() -> None:
    host = machine(
        entry("lo", ("127.0.0.1", "host"), ("::1", "host")),
        entry("bond0", ("10.0.0.1", "global"), ("fe80::1", "link"), ("fd00::1", "global")),
        entry("cali1", ("fe80::2", "link")),
        entry("eth1", flags=()),
        entry("ib0", ("10.1.0.1", "global"), flags=("UP",)),
        {},
        speeds={"bond0": "25000\n", "ib0": "-1\n"},
    )
    assert read_interfaces(host) == (
        NetworkInterface("bond0", ("10.0.0.1", "fd00::1"), up=True, speed_mbps=25000),
        NetworkInterface("ib0", ("10.1.0.1",), up=False),
        NetworkInterface("lo", ("127.0.0.1", "::1"), up=True),
    )


@pytest.mark.parametrize(
    "said", [Result(255, "", 'Option "-j" is unknown'), "", "1: lo: <LOOPBACK,UP>", '{"ifname": "lo"}', "[" * 100_000]
)
def test_a_machine_that_does_not_tell_has_unknown_interfaces(said: Result | str) -> None:
    assert read_interfaces(FakeHost(commands={"ip -j address": said})) is None
    assert read_interfaces(FakeHost()) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["ifname", "flags", "addr_info", "local", "scope"]), inner, max_size=5)
        ),
        max_leaves=12,
    )
)
def test_json_of_any_form_is_read_or_unreadable(document: Any) -> None:
    try:
        found = ip_addresses.read(json.dumps(document)).interfaces
    except Unreadable:
        assert not isinstance(document, list)
        return
    for one in found:
        assert isinstance(one.name, str)
        assert one.up in {None, True, False}
        assert all(isinstance(each.address, str) for each in one.addresses)


def test_a_name_that_is_a_path_is_no_interface() -> None:
    assert read_interfaces(machine(entry("../../etc", ("10.0.0.1", "global")))) == ()
