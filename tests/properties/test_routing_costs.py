# SPDX-License-Identifier: Apache-2.0
"""What must hold of every cost and choice of a gateway. Each property has a seeded defect that makes it fail, tried by
the last test.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.routing import capacity, choose, cost, others
from llmgw.gateway.routing.cost import Ask, EndpointCosts
from llmgw.gateway.routing.prefix import PrefixIndex
from tests.support.seen_endpoints import Seen, seen, spec

CLASSES = (None, "h100-80g", "l4-23g", "h100-80g-mig-1g.10gb", "never-heard-of-9g")
SHARES = st.floats(0.0, 1.0)
NOW = 1000.0

PARENTS = st.lists(st.integers(0, 3), max_size=12)
"""A prompt as a way down a tree: prompts share beginnings, as conversations do."""
TOKENS = st.integers(2000, 9000)
COUNTS = st.none() | st.integers(0, 40)
LOADS = st.builds(EngineLoad, st.just(NOW), COUNTS, COUNTS, st.none() | SHARES)


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    chain = chain_of(draw(PARENTS))
    return Ask(
        64 * len(chain) + draw(st.integers(0, 3000)),
        chain,
        draw(st.none() | st.sampled_from((b"a", b"b"))),
        draw(st.none() | st.integers(0, 4000)),
        draw(st.booleans()),
        draw(st.integers(0, 3)),
    )


def chain_of(way: list[int]) -> tuple[int, ...]:
    return tuple(itertools.accumulate((step + 1 for step in way), lambda above, step: above * 5 + step))


@dataclasses.dataclass
class Case:
    """Drawn for each property from the same: what it needs of it, it takes."""

    draw: Callable[..., Any]

    def fleet(self) -> list[Seen]:
        """Endpoints that have seen some requests."""
        ready = [
            seen(f"e{number}", self.draw(st.sampled_from(CLASSES)), weight=self.draw(st.sampled_from((1.0, 1.0, 0.25))))
            for number in range(self.draw(st.integers(2, 4)))
        ]
        for endpoint in ready:
            for ask in self.draw(st.lists(asks(), max_size=3)):
                charge = endpoint.give(ask, NOW)
                if self.draw(st.booleans()):
                    endpoint.end(charge, NOW)
            endpoint.costs.load = self.draw(st.none() | LOADS)
            endpoint.costs.risk_s = self.draw(st.sampled_from((None, 0.0, 0.5)))
        return ready


def a_binary_search_finds_what_a_walk_finds(case: Case) -> None:
    index = PrefixIndex(case.draw(st.integers(1, 24)))
    for way in case.draw(st.lists(PARENTS, max_size=30)):
        index.touch(chain_of(way))
    for way in case.draw(st.lists(PARENTS, min_size=1, max_size=5)):
        chain = chain_of(way)
        here = index._young | index._old
        walked = len(list(itertools.takewhile(here.__contains__, chain)))
        assert index.match(chain) == walked == sum(block in here for block in chain)


def an_index_never_holds_more_than_it_may(case: Case) -> None:
    most = case.draw(st.integers(2, 24))
    index = PrefixIndex(most)
    for way in case.draw(st.lists(PARENTS, max_size=40)):
        index.touch(chain_of(way))
        assert len(index) <= most


def what_came_last_is_in_the_index(case: Case) -> None:
    most = case.draw(st.integers(2, 24))
    index = PrefixIndex(most)
    for way in case.draw(st.lists(PARENTS, max_size=40)):
        index.touch(chain_of(way))
        assert index.match(chain_of(way)) >= min(len(way), most // 2)


def whatever_happens_nothing_stays_in_flight(case: Case) -> None:
    costs = EndpointCosts(spec())
    charges: list[cost.Charge] = []
    now = NOW
    for step in case.draw(
        st.lists(st.sampled_from(("ask", "first", "done", "restart", "report", "read")), max_size=40)
    ):
        now += case.draw(st.sampled_from((0.0, 0.01, 3.0)))
        if step == "ask":
            charges.append(costs.charge(case.draw(asks()), now))
        elif step == "restart":
            costs.restarted()
        elif step == "report":
            costs.load = EngineLoad(now, case.draw(COUNTS), case.draw(COUNTS), None)
        elif step == "read":
            costs.seconds(Ask(100), now)
        elif charges:
            act = costs.first_byte if step == "first" else costs.done
            act(case.draw(st.sampled_from(charges)), now)
        assert costs.in_flight == sum(charge.state != cost._OVER for charge in charges)
        assert costs.tokens_ahead >= 0
    for charge in charges:
        costs.done(charge, now)
    assert (costs.in_flight, costs.tokens_ahead, costs._waiting, costs._running) == (0, 0, 0, 0)


def more_queue_never_costs_less(case: Case) -> None:
    ask, device_class = case.draw(asks()), case.draw(st.sampled_from(CLASSES))
    own = case.draw(st.integers(0, 20))
    amounts = st.tuples(*[st.integers(0, 60)] * 3, st.integers(0, 100_000), SHARES, st.floats(0.0, 9.0), *[TOKENS] * 2)
    pairs = [sorted(pair) for pair in zip(case.draw(amounts), case.draw(amounts), strict=True)]
    less, more = (_loaded(device_class, own, level).seconds(ask, NOW) for level in zip(*pairs, strict=True))
    assert less <= more


def _loaded(device_class: str | None, own: int, level: tuple[float, ...]) -> EndpointCosts:
    running, waiting, requests, tokens, kv_usage, risk_s, *prompts = level
    costs = EndpointCosts(spec(device_class=device_class))
    costs.elsewhere_requests = own
    costs.load = EngineLoad(NOW, running, waiting, kv_usage)
    costs.elsewhere_requests, costs.elsewhere_tokens = own + int(requests), int(tokens)
    costs.risk_s = risk_s
    for prompt in prompts:
        costs.charge(Ask(int(prompt), streams=True), NOW)
    return costs


def silence_is_never_the_idlest(case: Case) -> None:
    ask = case.draw(asks())
    device_class = case.draw(st.sampled_from(CLASSES))
    ask.max_tokens = None
    silent, idle = (EndpointCosts(spec(device_class=device_class)) for _endpoint in range(2))
    idle.load = EngineLoad(NOW, 0, 0, 0.0)
    told = [case.draw(st.booleans()) for _number in range(3)]
    running, waiting, kv_usage = ((0 if one else None) for one in told)
    silent.load = case.draw(st.sampled_from((None, EngineLoad(NOW, running, waiting, kv_usage))))
    if silent.load is None or not all(told):
        assert silent.seconds(ask, NOW) > idle.seconds(ask, NOW)
    else:
        assert silent.seconds(ask, NOW) == idle.seconds(ask, NOW)


def the_order_of_endpoints_does_not_matter(case: Case) -> None:
    ready, ask = case.fleet(), case.draw(asks())
    turned = case.draw(st.permutations(ready))
    for policy in ("cost", "session"):
        terms = choose.explain(policy, ready, ask, NOW)
        assert choose.explain(policy, turned, ask, NOW) == terms
        most = choose._most([one.total_s for one in terms])
        near = [one.endpoint for one in terms if one.total_s <= most]
        if len(near) == 1:
            chosen = {choose.choose(policy, order, ask, 0, 0, NOW).spec.id for order in (ready, turned)}
            assert chosen == set(near)


def the_chosen_one_costs_nearly_the_least(case: Case) -> None:
    ready, ask = case.fleet(), case.draw(asks())
    for policy in ("cost", "session"):
        terms = {one.endpoint: one.total_s for one in choose.explain(policy, ready, ask, NOW)}
        least = min(terms.values())
        chosen = choose.choose(policy, ready, ask, 0, case.draw(st.integers(0, 99)), NOW)
        assert terms[chosen.spec.id] <= max(least * 1.1, least + 0.02) + 1e-9


def the_terms_add_up_to_the_cost(case: Case) -> None:
    ready, ask = case.fleet(), case.draw(asks())
    for one in choose.explain("cost", ready, ask, NOW):
        (costs,) = (endpoint.costs for endpoint in ready if endpoint.spec.id == one.endpoint)
        parts = (one.queue_s, one.prefill_s, one.decode_s, one.kv_s, one.risk_s)
        assert min(parts) >= 0.0
        assert one.total_s == pytest.approx(sum(parts) / one.weight)
        assert one.total_s == costs.seconds(ask, NOW)


def what_is_learned_stays_between_what_was_seen(case: Case) -> None:
    learner = capacity.Capacity("l4-23g", 1)
    seen_speeds = [learner.prefill_tps]
    for tokens, seconds in case.draw(
        st.lists(st.tuples(st.integers(1, 100_000), st.floats(0.001, 1000.0)), max_size=30)
    ):
        learner.read(tokens, seconds)
        seen_speeds.append(max(1.0, tokens / seconds))
        assert min(seen_speeds) * 0.999 <= learner.prefill_tps <= max(seen_speeds) * 1.001


def who_goes_moves_only_what_it_had(case: Case) -> None:
    ready = [seen(f"e{number}") for number in range(case.draw(st.integers(3, 6)))]
    gone = case.draw(st.sampled_from(ready))
    left = [endpoint for endpoint in ready if endpoint is not gone]
    for number in range(20):
        ask = Ask(6400, (number + 1,), home=case.draw(st.integers(1, 1 << 32)))
        before = choose.choose("cost", ready, ask, 0, 0, NOW)
        if before is not gone:
            assert choose.choose("cost", left, ask, 1, 1, NOW) is before


PROPERTIES = [
    a_binary_search_finds_what_a_walk_finds,
    an_index_never_holds_more_than_it_may,
    what_came_last_is_in_the_index,
    whatever_happens_nothing_stays_in_flight,
    more_queue_never_costs_less,
    silence_is_never_the_idlest,
    the_order_of_endpoints_does_not_matter,
    the_chosen_one_costs_nearly_the_least,
    the_terms_add_up_to_the_cost,
    what_is_learned_stays_between_what_was_seen,
    who_goes_moves_only_what_it_had,
]


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
@given(data=st.data())
def test_every_cost_and_choice(holds: Callable[[Case], None], data: st.DataObject) -> None:
    holds(Case(data.draw))


def _touch_block_by_block(patch: pytest.MonkeyPatch) -> None:
    """Generations that change within a prompt: its end stays where its beginning is dropped."""
    whole = PrefixIndex.touch

    def touch(self: PrefixIndex, chain: tuple[int, ...]) -> None:
        for block in chain:
            whole(self, (block,))

    patch.setattr(PrefixIndex, "touch", touch)


def _never_drop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrefixIndex, "touch", lambda self, chain: self._young.update(chain[: self._half]))


def _take_nothing_when_full(patch: pytest.MonkeyPatch) -> None:
    def touch(self: PrefixIndex, chain: tuple[int, ...]) -> None:
        if len(self._young) + len(chain) <= self._half:
            self._young.update(chain)

    patch.setattr(PrefixIndex, "touch", touch)


def _release_twice(patch: pytest.MonkeyPatch) -> None:
    whole = EndpointCosts.done

    def done(self: EndpointCosts, charge: cost.Charge, *rest: Any) -> None:
        before = charge.state
        whole(self, charge, *rest)
        charge.state = before

    patch.setattr(EndpointCosts, "done", done)


def _one_that_runs_has_no_queue(patch: pytest.MonkeyPatch) -> None:
    def busy(load: EngineLoad, _own: int) -> others.Others:
        running = load.running or 0.0
        return others.Others(running, 0.0 if running else load.waiting or 0.0, 0.0, 0.0, reported=True)

    patch.setattr(cost, "others", busy)


def _silence_is_zero(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(cost, "UNREPORTED", others.Others(0.0, 0.0, 0.0, 0.0, reported=False))
    patch.setattr(others, "UNREPORTED", others.Others(0.0, 0.0, 0.0, 0.0, reported=False))


def _first_is_least(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choose, "_most", lambda costs: costs[0])


def _fewest_in_flight_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choose, "_most", lambda _costs: float("inf"))


def _explain_without_risk(patch: pytest.MonkeyPatch) -> None:
    whole = EndpointCosts.terms
    patch.setattr(EndpointCosts, "terms", lambda *args, **more: dataclasses.replace(whole(*args, **more), risk_s=0.0))


def _learn_beyond_the_sample(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(capacity, "_weight", lambda _samples: 1.5)
    patch.setattr(capacity, "FURTHEST_STEP", 1e9)


def _place_by_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choose, "_ranked", lambda ready, seed: (ready[seed % len(ready)],) * 2)


DEFECTS: dict[Callable[[Case], None], Callable[[pytest.MonkeyPatch], None]] = dict(
    zip(
        PROPERTIES,
        [
            _touch_block_by_block,
            _never_drop,
            _take_nothing_when_full,
            _release_twice,
            _one_that_runs_has_no_queue,
            _silence_is_zero,
            _first_is_least,
            _fewest_in_flight_wins,
            _explain_without_risk,
            _learn_beyond_the_sample,
            _place_by_count,
        ],
        strict=True,
    )
)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda holds: holds.__name__)
def test_every_property_fails_on_its_seeded_defect(
    holds: Callable[[Case], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    DEFECTS[holds](monkeypatch)

    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
    @given(data=st.data())
    def defective(data: st.DataObject) -> None:
        holds(Case(data.draw))

    with pytest.raises(AssertionError):
        defective()
