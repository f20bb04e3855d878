# SPDX-License-Identifier: Apache-2.0
"""What it costs to find a request's endpoint: microseconds of CPU by step, for prompts and services of several sizes.

No gateway and no engine: the pure functions alone, as the data plane calls them. `python -m tests.bench.choosing`
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import timeit
from collections.abc import Callable

from llmgw.gateway.routing.choose import choose, explain
from llmgw.gateway.routing.cost import Ask
from llmgw.gateway.routing.prefix import chain, home
from tests.support.seen_endpoints import Seen, fleet

PROMPTS = (2048, 512 * 1024)
ENDPOINTS = (1, 8, 100)
CACHED = {"none": 0.0, "half": 0.5, "all": 1.0}
SPENT_S = 0.02
REPEATS = 15


def microseconds(act: Callable[[], object]) -> float:
    """CPU of one call: the least of several runs."""
    act()
    timer = timeit.Timer(act, timer=time.process_time)
    once = max(1e-7, timer.timeit(10) / 10)
    number = max(10, int(SPENT_S / once))
    return round(min(timer.repeat(REPEATS, number)) / number * 1e6, 2)


def _request(ready: list[Seen], ask: Ask) -> Callable[[], object]:
    """All that is done for one request but for reading its prompt: asked, chosen, charged, answered, over."""
    turns = itertools.count()

    def act() -> None:
        turn = next(turns)
        now = turn * 0.01
        again = Ask(ask.tokens, ask.chain, streams=True, home=ask.home)
        chosen = choose("cost", ready, again, turn, turn, now)
        charge = chosen.give(again, now)
        chosen.costs.first_byte(charge, now + 0.005)
        chosen.end(charge, now + 0.009)

    return act


def _of_prompt(data: bytes) -> dict[str, object]:
    """What hashing a prompt costs."""
    return {
        "prompt_bytes": len(data),
        "chain_us": microseconds(lambda: chain(7, (data,))),
        "home_us": microseconds(lambda: home(7, (data,))),
    }


def _of_choice(data: bytes, count: int, cached: str) -> dict[str, object]:
    """What choosing among `count` endpoints costs that have a share of the prompt cached."""
    blocks = chain(7, (data,))
    ask = Ask(len(data) // 4, blocks, streams=True, home=home(7, (data,)))
    ready = fleet(count)
    for endpoint in ready:
        endpoint.costs.prefix.touch(blocks[: int(len(blocks) * CACHED[cached])])
    turns = itertools.count()
    return {
        "prompt_bytes": len(data),
        "endpoints": count,
        "cached": cached,
        "choose_us": microseconds(lambda: choose("cost", ready, ask, 0, next(turns), 1.0)),
        "least_inflight_us": microseconds(lambda: choose("least-inflight", ready, ask, 0, 0, 1.0)),
        "explain_us": microseconds(lambda: explain("cost", ready, ask, 1.0)),
        "request_us": microseconds(_request(ready, ask)),
    }


def main() -> int:
    """Prints one JSON line for each case."""
    for size in PROMPTS:
        data = b"".join(number.to_bytes(4, "big") for number in range(size // 4))
        _tell(_of_prompt(data))
        for count, cached in itertools.product(ENDPOINTS, CACHED):
            _tell(_of_choice(data, count, cached))
    return 0


def _tell(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
