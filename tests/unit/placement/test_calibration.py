# SPDX-License-Identifier: Apache-2.0
"""What engines said of their memory replaces what was reckoned, as far as it is of the same (P13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from llmgw.model.ids import DeviceClass
from llmgw.nodekit import contract
from llmgw.placement.memory.estimate import Estimate, estimate
from llmgw.placement.memory.model_facts import KnownModel, Report, Rests
from tests.support.memory_models import H100, H100_MIB, known, llama_70b, profile

SAID = contract.EngineMemory(weights_mib=34_000, kv_cache_mib=38_000, kv_cache_tokens=486_400)
REST = H100_MIB * 0.92 - 34_000 - 38_000


def report(**more: Any) -> Report:
    values: dict[str, Any] = {
        "model": "m",
        "engine": "vllm",
        "profile": "p",
        "device_class": H100,
        "total_mib": H100_MIB,
        "devices": 4,
        "members": 1,
        "memory": SAID,
        "share": 0.92,
    }
    return Report(**(values | more))


def rests(*reports: Report) -> dict[tuple[str, str], Rests]:
    """As the index of the fleet makes them."""
    told = [(report, report.rest_mib) for report in reports]
    found: dict[tuple[str, str], Rests] = {}
    for report, rest in told:
        if rest is not None:
            key = (report.engine, str(report.device_class))
            known = found.get(key, Rests(rest, rest))
            found[key] = Rests(min(known.least, rest), max(known.most, rest))
    return found


def of(model: KnownModel, **more: Any) -> Estimate:
    found = estimate(profile(4, **more), model, H100_MIB, H100)
    assert found is not None
    return found


def test_the_same_replica_tells_weights_cache_and_reserve() -> None:
    found = of(llama_70b(reports=(report(),)))
    assert found.weights is not None
    assert found.cost is not None
    assert found.measured == ("weights", "KV cache", "reserve")
    assert found.weights.likely == pytest.approx(34_000)
    assert found.cost.likely.token == pytest.approx(38_000 * 2**20 / 486_400)
    assert found.spare.likely == pytest.approx(REST)


def test_another_class_tells_of_weights_and_cache_and_not_of_the_reserve() -> None:
    found = of(llama_70b(reports=(report(device_class=DeviceClass("h200-141g"), total_mib=143771),)))
    assert found.measured == ("weights", "KV cache")


@pytest.mark.parametrize("more", [{"devices": 8}, {"members": 2}, {"profile": "another"}])
def test_a_replica_that_is_cut_otherwise_tells_of_the_reserve_alone(more: dict[str, Any]) -> None:
    found = of(llama_70b(reports=(report(**more),), rests=rests(report(**more))))
    assert found.measured == ("reserve",)
    assert found.spare.likely == pytest.approx(REST)
    assert found.spare.high == pytest.approx(REST * 1.5)


def test_other_models_on_the_class_tell_of_the_reserve_between_bounds() -> None:
    small = replace(SAID, kv_cache_mib=39_000)
    found = of(llama_70b(rests=rests(report(model="a"), report(model="b", memory=small))))
    assert found.measured == ("reserve",)
    assert found.spare.likely == pytest.approx(REST)
    assert found.spare.low == pytest.approx((REST - 1000) * 0.6)


@pytest.mark.parametrize(
    "more",
    [
        {"engine": "sglang"},
        {"device_class": DeviceClass("a100-80g")},
        {"share": None},
        {"total_mib": None},
        {"memory": replace(SAID, kv_cache_mib=None)},
        {"memory": replace(SAID, kv_cache_mib=80_000)},
    ],
)
def test_what_says_too_little_or_is_of_something_else_changes_nothing(more: dict[str, Any]) -> None:
    assert of(llama_70b(rests=rests(report(model="a", **more)))) == of(llama_70b())


def test_tokens_of_a_model_with_windows_are_no_measure_of_one_token() -> None:
    found = of(known("gpt-oss-120b", 65 * 10**9, reports=(report(),)))
    assert found.measured == ("weights", "reserve")


def test_the_order_of_reports_changes_nothing() -> None:
    two = (report(), report(device_class=DeviceClass("a100-80g"), memory=replace(SAID, weights_mib=33_000)))
    assert of(llama_70b(reports=two)) == of(llama_70b(reports=two[::-1]))
