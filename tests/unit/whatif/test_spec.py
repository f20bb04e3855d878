# SPDX-License-Identifier: Apache-2.0
"""How supposed nodes are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.errors import LlmgwError
from llmgw.whatif.spec import GB, NodesSpec, kind_spec, nodes_spec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("4xh200x8", NodesSpec("h200", 8, 4)),
        ("4XH200x8", NodesSpec("h200", 8, 4)),
        ("1xh200-141gx8", NodesSpec("h200-141g", 8)),
        ("2xrtx-6000-adax4", NodesSpec("rtx-6000-ada", 4, 2)),
        ("2xa100-80g-mig-3g.40gbx16", NodesSpec("a100-80g-mig-3g.40gb", 16, 2)),
        ("3xcpu", NodesSpec("cpu", 0, 3)),
        (
            "2xh200x8, fabric=ib-a, domain=72abb1a8.2, memory=2000, like=n7",
            NodesSpec("h200", 8, 2, "ib-a", "72abb1a8.2", memory_bytes=2000 * GB, like="n7"),
        ),
        ("1xcpu,memory=512GB", NodesSpec("cpu", 0, memory_bytes=512 * GB)),
        (
            "1xcpu,label=pool:prod,label=example.com/rack=r:3",
            NodesSpec("cpu", 0, labels={"pool": "prod", "example.com/rack": "r:3"}),
        ),
        ("1xcpu,weights=Qwen/Qwen3-32B,weights=/srv/m", NodesSpec("cpu", 0, weights=("Qwen/Qwen3-32B", "/srv/m"))),
    ],
)
def test_nodes_are_a_number_a_class_and_a_number_of_devices_and_what_else_is_known(text: str, spec: NodesSpec) -> None:
    assert nodes_spec(text) == spec


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it does not begin with a number of nodes"),
        ("h200x8", "it does not begin with a number of nodes"),
        ("4xh200", "`h200` does not say how many devices"),
        ("4x8", "`8` does not say how many devices of which class"),
        ("0xh200x8", "0 is no number of nodes"),
        ("1025xh200x8", "it is from 1 to 1024"),
        ("4xh200x0", "0 is no number of devices in a node"),
        ("4xh200x129", "it is from 1 to 128"),
        ("4xh200x8,fabrics=ib-a", "did you mean fabric?"),
        ("4xh200x8,zzz=1", "there are domain, fabric, label, like, memory, weights"),
        ("4xh200x8,fabric", "`fabric` has no value"),
        ("4xh200x8,fabric=", "`fabric` has no value"),
        ("4xh200x8,fabric=a,fabric=b", "`fabric` is there twice"),
        ("4xh200x8,fabric=a b", "`a b` is no value of `fabric`"),
        ("4xh200x8,label=pool", "write label=NAME:VALUE"),
        ("4xh200x8,label=:prod", "write label=NAME:VALUE"),
        ("4xh200x8,memory=lots", "write the host memory of a node in GB"),
        ("4xh200x8,memory=0", "write the host memory of a node in GB"),
        ("4xh200x8,memory=1000001", "write the host memory of a node in GB"),
    ],
)
def test_what_is_written_wrongly_is_told_with_how_it_is_written(text: str, says: str) -> None:
    with pytest.raises(LlmgwError) as caught:
        nodes_spec(text)
    assert says in str(caught.value)
    assert f"`{text}`" in caught.value.why
    assert caught.value.code == "what-if-spec"


def test_a_kind_is_the_same_without_the_number() -> None:
    assert kind_spec("h200x8,fabric=ib-a") == NodesSpec("h200", 8, fabric="ib-a")
    assert kind_spec("cpu,memory=64") == NodesSpec("cpu", 0, memory_bytes=64 * GB)


@pytest.mark.parametrize(("text", "fix"), [("4xh200x8", "write h200x8"), ("2xcpu", "write cpu")])
def test_a_kind_with_a_number_is_told_to_leave_it_out(text: str, fix: str) -> None:
    with pytest.raises(LlmgwError, match="which is what is looked for") as caught:
        kind_spec(text)
    assert caught.value.fix == fix


@given(text=st.text(st.sampled_from("0123456789xhgcpu200-,=:. \nmemorylabelfabric²"), max_size=40))
def test_any_text_is_nodes_or_an_error_in_words(text: str) -> None:
    for reader in (nodes_spec, kind_spec):
        assert 1 <= _count(reader, text) <= 1024


def _count(reader: Callable[[str], NodesSpec], text: str) -> int:
    try:
        return reader(text).count
    except LlmgwError as error:
        return 1 if error.fix else 0


@pytest.mark.parametrize(("reader", "text"), [(nodes_spec, "2xcpux1"), (kind_spec, "cpux1"), (kind_spec, "CPUx8")])
def test_cpu_is_no_device_class(reader: Callable[[str], NodesSpec], text: str) -> None:
    with pytest.raises(LlmgwError, match="`cpu` is no device class") as caught:
        reader(text)
    assert caught.value.fix == "nodes without devices are `cpu`, without a number of them"
