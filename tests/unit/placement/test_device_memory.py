# SPDX-License-Identifier: Apache-2.0
"""The hard constraint on device memory: what surely does not fit is refused by how much, unknown refuses nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.model.node import Node
from llmgw.model.placement import Rejection
from llmgw.model.replica import ProfileSpec, ServiceSpec
from llmgw.placement.ledger import Ledger
from llmgw.placement.memory.device_memory import Appetite, class_shortage, device_memory_fits
from llmgw.placement.memory.model_facts import KnownModel
from tests.support import fleets
from tests.support.memory_models import H100, H100_MIB, known, llama_70b, profile

H200 = DeviceClass("h200-141g")


@dataclass(frozen=True)
class Asked:
    service: ServiceSpec
    profile: ProfileSpec
    appetite: Appetite | None


def node(*sizes: int | None, device_class: str = H100) -> Node:
    one = fleets.node("n1", len(sizes), device_class=device_class)
    devices = tuple(
        replace(device, memory_total_mib=size) for device, size in zip(one.devices or (), sizes, strict=True)
    )
    return replace(one, devices=devices)


def refused(asked: ProfileSpec, model: KnownModel, where: Node) -> Rejection | None:
    appetite = Appetite(asked, model)
    return device_memory_fits(Asked(fleets.service(), asked, appetite), Ledger(where, (18000, 18999)))


def test_what_surely_does_not_fit_is_refused_with_both_amounts() -> None:
    found = refused(profile(1), llama_70b(), node(H100_MIB))
    assert found is not None
    assert found.message == (
        "needs at least 168 GiB a device for weights and one request of 131072 tokens, h100-80g gives 73"
    )
    assert (found.constraint, found.has, found.needs, found.unit) == ("device-memory", 75034, 172005, "MiB")


def test_what_may_fit_is_not_refused() -> None:
    assert refused(profile(2, max_model_len=8192), llama_70b(), node(H100_MIB, H100_MIB)) is None


def test_weights_alone_are_named_where_the_cache_is_unknown() -> None:
    strange = KnownModel(replace(llama_70b().tensors, architecture=None))  # type: ignore[type-var]
    found = refused(profile(1), strange, node(H100_MIB))
    assert found is not None
    assert "for its weights alone" in found.message


@pytest.mark.parametrize("size", [None, 10 * H100_MIB])
def test_memory_that_is_unknown_or_enough_refuses_nothing(size: int | None) -> None:
    assert refused(profile(1), llama_70b(), node(size)) is None


def test_one_device_of_unknown_size_may_be_large_enough() -> None:
    assert refused(profile(1), llama_70b(), node(H100_MIB, None)) is None


def test_the_largest_device_of_a_class_counts() -> None:
    assert refused(profile(1), llama_70b(), node(H100_MIB, 4 * H100_MIB)) is None


def test_a_model_that_nobody_knows_refuses_nothing() -> None:
    asked = profile(1)
    assert refused(asked, KnownModel(), node(H100_MIB)) is None
    without = Asked(fleets.service(), asked, None)
    assert device_memory_fits(without, Ledger(node(H100_MIB), (18000, 18999))) is None


def test_another_class_of_the_profile_on_the_node_may_have_enough() -> None:
    both = node(H100_MIB, 143771)
    first, second = both.devices or ()
    mixed = replace(both, devices=(first, replace(second, device_class=H200)))
    asked = profile(1, devices=(H100, H200), max_model_len=4096)
    model = known("Qwen3-32B", 110 * 10**9)
    assert refused(asked, model, node(H100_MIB)) is not None
    assert refused(asked, model, mixed) is None
    assert class_shortage(Appetite(asked, model), mixed, H100) is not None
    assert class_shortage(Appetite(asked, model), mixed, H200) is None


def test_a_class_that_the_node_does_not_have_is_another_constraints_affair() -> None:
    assert refused(profile(1), llama_70b(), node(143771, device_class=H200)) is None


def test_amounts_that_are_close_have_digits_that_tell_them_apart() -> None:
    found = refused(profile(1, max_model_len=16), known("Qwen3-32B", 81_000 * 2**20), node(H100_MIB))
    assert found is not None
    needs, has = (part.split()[-1] for part in (found.message.split(" GiB")[0], found.message))
    assert float(needs) > float(has)


def test_an_answer_is_remembered_by_class_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Appetite(profile(1), llama_70b())
    first = asked.shortage(H100, H100_MIB)
    monkeypatch.setattr("llmgw.placement.memory.device_memory.estimate", lambda *_more: pytest.fail("reckoned twice"))
    assert asked.shortage(H100, H100_MIB) is first


def test_the_longest_context_that_is_expected_to_fit_is_told() -> None:
    asked = Appetite(profile(2), llama_70b())
    assert asked.longest(H100, H100_MIB) == 13968
    assert asked.longest(H100, 8 * H100_MIB) == 131072
    assert asked.longest(H100, None) is None
    assert Appetite(profile(1), llama_70b()).longest(H100, H100_MIB) is None
