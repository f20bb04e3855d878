# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import textwrap
import time
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from llmgw.errors import LlmgwError, LlmgwErrors
from llmgw.fleet.fabric_settings import Declaration, read_declarations
from llmgw.fleet.hosts import Host
from llmgw.fleet.inventory import read_inventory

PCI = {"kind": "infiniband", "hcas": {"pci": ["0000:1a:00.0", "0000:9a:00.0"]}}


def host(name: str, value: Any = None) -> Host:
    return Host(name, node=True, gateway=False, variables={} if value is None else {"llmgw_fabrics": value})


def one(body: Any) -> Declaration:
    (declaration,) = read_declarations([host("n1", {"ib-a": body})])["n1"]
    return declaration


def refused(*hosts: Host) -> list[LlmgwError]:
    with pytest.raises(LlmgwError) as caught:
        read_declarations(hosts)
    error = caught.value
    return list(error.errors) if isinstance(error, LlmgwErrors) else [error]


def test_a_host_without_the_variable_declares_nothing() -> None:
    assert read_declarations([host("n1"), host("n2", {})]) == {"n1": (), "n2": ()}


def test_every_way_to_tell_ports_is_read_into_one_spelling() -> None:
    assert one({"kind": "infiniband", "hcas": {"pci": ["00000000:9A:00.0", "1a:00.1"]}}).pci == (
        "0000:1a:00.1",
        "0000:9a:00.0",
    )
    assert one({"kind": "infiniband", "hcas": {"sm_guids": ["506B:4B03:00CA:0001"]}}).sm_guids == (
        "0x506b4b0300ca0001",
    )
    for prefix in ("fec0:0:0:1", "fec0:0:0:1::", "0xfec0000000000001", "fec0:0000:0000:0001:506b:4b03:00ca:0001"):
        read = one({"kind": "infiniband", "hcas": {"subnet_prefix": prefix}})
        assert read.subnet_prefix == "fec0:0000:0000:0001"
    roce = one({"kind": "roce", "cidrs": ["10.8.0.0/16"], "rails": "independent", "hcas": {"netdevs": ["eth2"]}})
    assert roce == Declaration("ib-a", "roce", "independent", netdevs=("eth2",), cidrs=(ip_network("10.8.0.0/16"),))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"hcas": {"pci": ["0000:1a:00.0"]}}, "ib-a.kind is missing: it is infiniband or roce"),
        ({**PCI, "kind": "ib"}, "ib-a.kind is 'ib': it is infiniband or roce"),
        ({**PCI, "rails": True}, "ib-a.rails is True: it is joined or independent"),
        ({"kind": "infiniband"}, "ib-a does not say which ports it has"),
        ({"kind": "infiniband", "hcas": {"netdevs": ["ib0"]}}, "ib-a is told by interface names alone"),
        ({"kind": "infiniband", "hcas": {"devices": ["mlx5_0"]}}, "ib-a.hcas.devices is not known"),
        ({**PCI, "cidr": ["10.0.0.0/8"]}, "ib-a.cidr is not known"),
        ({"kind": "infiniband", "hcas": ["0000:1a:00.0"]}, "ib-a.hcas is not a mapping"),
        ({"kind": "infiniband", "hcas": {"pci": "0000:1a:00.0"}}, "ib-a.hcas.pci is not a list with something in it"),
        ({"kind": "infiniband", "hcas": {"pci": []}}, "ib-a.hcas.pci is not a list with something in it"),
        ({"kind": "infiniband", "hcas": {"pci": ["mlx5_0"]}}, "ib-a.hcas.pci holds 'mlx5_0': it is no PCI address"),
        ({"kind": "infiniband", "hcas": {"sm_guids": ["0x0"]}}, "ib-a.hcas.sm_guids holds '0x0': it is no GUID"),
        ({"kind": "infiniband", "hcas": {"sm_guids": ["nonsense"]}}, "it is no GUID"),
        ({"kind": "infiniband", "hcas": {"subnet_prefix": "10.0.0.0"}}, "holds '10.0.0.0': it is no"),
        ({"kind": "infiniband", "hcas": {"subnet_prefix": "fe80::"}}, "it tells none apart"),
        ({"kind": "infiniband", "cidrs": ["10.0.0.0/8"]}, "ib-a.cidrs tell RoCE fabrics only"),
        ({"kind": "roce", "hcas": {"sm_guids": ["0x1"]}}, "ib-a.hcas.sm_guids tells InfiniBand fabrics only"),
        ({"kind": "roce", "hcas": {"subnet_prefix": "fec0:0:0:1"}}, "subnet_prefix tells InfiniBand fabrics only"),
        ({"kind": "roce", "cidrs": ["10.0.0.1/8"]}, "ib-a.cidrs holds '10.0.0.1/8': 10.0.0.1/8 has host bits set"),
        ("mlx5_0", "ib-a is not a mapping: 'mlx5_0'"),
        (None, "ib-a is not a mapping: None"),
    ],
)
def test_what_makes_no_sense_is_named_with_variable_host_and_key(body: Any, says: str) -> None:
    errors = refused(host("n1", {"ib-a": body}))
    assert all(error.code == "inventory-value" and error.fix for error in errors)
    assert all(str(error).startswith("llmgw_fabrics of n1: ib-a") for error in errors)
    assert any(says in str(error) for error in errors), [str(error) for error in errors]


@pytest.mark.parametrize("value", [["ib-a"], "ib-a", 5])
def test_the_variable_itself_must_be_a_mapping(value: Any) -> None:
    (error,) = refused(host("n1", value))
    assert str(error).startswith("llmgw_fabrics of n1 is not a mapping of fabric names")


def test_an_address_that_yaml_read_as_a_number_is_told_to_be_quoted(tmp_path: Path) -> None:
    text = "fleet: {hosts: {n1: {llmgw_fabrics: {ib-a: {kind: infiniband, hcas: {pci: [0000:17:00.0]}}}}}}\n"
    (tmp_path / "hosts.yml").write_text(text)
    (error,) = refused(*read_inventory(tmp_path / "hosts.yml"))
    assert "which is no text" in error.why
    assert "in quotes" in (error.fix or "")


def test_all_mistakes_are_told_at_once_and_each_of_them_once() -> None:
    value = {"ib-a": {"kind": "ib", "hcas": {"pci": ["x"]}}, "a b": PCI, "ib-c": {**PCI, "rails": "both"}}
    errors = refused(*(host(f"n{number}", value) for number in range(5)))
    assert len(errors) == 4
    assert all("of n0 (and of 4 more hosts)" in error.why for error in errors)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (PCI, {"kind": "roce", "hcas": {"pci": ["9a:00.0"]}}, "gives 0000:9a:00.0 to both ib-a and ib-b"),
        (
            {"kind": "infiniband", "hcas": {"sm_guids": ["0x1", "0x2"]}},
            {"kind": "infiniband", "hcas": {"sm_guids": ["0x2"]}},
            "gives 0x0000000000000002 to both",
        ),
        (
            {"kind": "infiniband", "hcas": {"subnet_prefix": "fec0:0:0:1"}},
            {**PCI, "hcas": {**PCI["hcas"], "subnet_prefix": "fec0:0:0:1"}},  # type: ignore[dict-item]
            "gives fec0:0000:0000:0001 to both",
        ),
        (
            {"kind": "roce", "cidrs": ["10.0.0.0/8"]},
            {"kind": "roce", "cidrs": ["10.9.0.0/16", "fd00::/8"]},
            "gives 10.9.0.0/16 to both ib-a and ib-b",
        ),
    ],
)
def test_two_fabrics_cannot_have_one_port(first: Any, second: Any, both: str) -> None:
    (error,) = refused(host("n1", {"ib-a": first, "ib-b": second}))
    assert both in error.why


def test_hosts_may_differ_in_their_adapters_and_in_nothing_else() -> None:
    other = {"kind": "infiniband", "hcas": {"pci": ["0001:00:00.0"]}}
    found = read_declarations([host("n1", {"ib-a": PCI}), host("n2", {"ib-a": other}), host("n3", {})])
    assert [len(found[name]) for name in ("n1", "n2", "n3")] == [1, 1, 0]
    errors = refused(host("n1", {"ib-a": PCI}), host("n2", {"ib-a": {**other, "rails": "independent"}}))
    assert [error.why for error in errors] == ["llmgw_fabrics: ib-a.rails is joined on n1, independent on n2"]
    guided = {"kind": "infiniband", "hcas": {"sm_guids": ["0x1"]}}
    (error,) = refused(host("n1", {"ib-a": PCI}), host("n2", {"ib-a": guided}), host("n3", {"ib-a": guided}))
    assert "hcas.sm_guids is not set on n1, 0x0000000000000001 on n2" in error.why
    assert "hcas.pci and hcas.netdevs" in (error.fix or "")


def test_every_example_of_the_guide_is_accepted() -> None:
    guide = Path(__file__).parents[3] / "docs/how-to/declare-fabrics.md"
    blocks = re.split(r"\n(?! {4}|\n)", guide.read_text(encoding="utf-8"))
    examples = [textwrap.dedent(block) for block in blocks if re.search("^ {4}llmgw_fabrics:", block, re.MULTILINE)]
    assert len(examples) == 3
    for example in examples:
        text = "\n".join(line for line in example.splitlines() if not line or line[0] in " l")
        value = YAML(typ="safe").load(text[text.index("llmgw_fabrics:") :])["llmgw_fabrics"]
        assert read_declarations([host("n1", value)])["n1"]


@pytest.mark.parametrize("value", ["{{ fabrics_of_site }}", {"ib-a": {"kind": "{{ kind }}", "hcas": {"pci": ["x"]}}}])
def test_a_template_is_refused_as_such_and_not_as_a_wrong_value(value: Any) -> None:
    (error,) = refused(host("n1", value), host("n2", value))
    assert (error.code, error.where) == ("inventory-template", None)
    assert error.why == (
        "llmgw_fabrics of n1 (and of 1 more hosts) is a template, and only a playbook run can resolve it"
    )
    assert "group_vars" in (error.fix or "")


def test_networks_of_one_fabric_may_be_inside_one_another_and_those_of_two_may_be_neighbours() -> None:
    declared: dict[str, Any] = {
        "a": {"kind": "roce", "cidrs": ["10.0.0.0/8", "10.1.0.0/16", "fd00::/16"]},
        "b": {"kind": "roce", "cidrs": ["11.0.0.0/8", "9.255.255.0/24", "fd01::/16"]},
    }
    assert len(read_declarations([host("n1", declared)])["n1"]) == 2


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(26, 32), st.sampled_from("abc")), max_size=8))
def test_fabrics_share_a_network_exactly_when_two_of_their_networks_overlap(
    drawn: list[tuple[int, int, str]],
) -> None:
    networks = [(ip_network((f"10.0.0.{begin}", length), strict=False), name) for begin, length, name in drawn]
    declared: dict[str, Any] = {}
    for network, name in networks:
        declared.setdefault(name, {"kind": "roce", "cidrs": []})["cidrs"].append(str(network))
    clash = any(one.overlaps(other) for one, name in networks for other, whose in networks if name != whose)
    try:
        read_declarations([host("n1", declared)])
    except (LlmgwError, LlmgwErrors):
        assert clash
    else:
        assert not clash


def test_ten_thousand_entries_are_read_at_once() -> None:
    many: dict[str, Any] = {
        name: {"kind": "roce", "cidrs": [f"{first}.{number // 256}.{number % 256}.0/24" for number in range(5_000)]}
        for name, first in (("a", 10), ("b", 11))
    }
    many |= {
        f"f{number}": {"kind": "infiniband", "hcas": {"pci": [f"{number:04x}:01:00.0"]}} for number in range(5_000)
    }
    begun = time.process_time()
    assert len(read_declarations([host("n1", many)])["n1"]) == 5_002
    assert time.process_time() - begun < 5


def test_ten_thousand_mistakes_are_a_hundred_and_their_number() -> None:
    errors = refused(host("n1", {f"no name {number}": PCI for number in range(10_000)}))
    assert len(errors) == 101
    assert errors[-1].why == "llmgw_fabrics has 9900 more mistakes"


def test_a_value_of_any_length_is_told_in_a_line() -> None:
    (error,) = refused(host("n1", {"a": {**PCI, "kind": "x" * 10**6}}))
    assert len(error.why) < 400


def test_keys_and_values_that_are_no_text_are_mistakes_like_any_other() -> None:
    holds_itself: dict[str, Any] = {}
    holds_itself["a"] = holds_itself
    deep: dict[Any, Any] = {}
    for _level in range(5_000):
        deep = {"a": deep}
    odd: dict[Any, Any] = {1: 2, None: 3, (4, 5): 6}
    odd_names: dict[Any, Any] = {"a": PCI, 7: PCI}
    for value in ({"a": {**PCI, **odd}}, odd_names, holds_itself, deep):
        assert {error.code for error in refused(host("n1", value))} == {"inventory-value"}
