# SPDX-License-Identifier: Apache-2.0
"""One gateway a module, to which each test publishes its own routes; after each test nothing may be in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import structlog

from llmgw.gateway.admit.admission import RetryBudget
from tests.gateway.engine import Engine
from tests.gateway.harness import RunningGateway

# Into pytest's own capture, thread by thread.
structlog.configure(logger_factory=structlog.stdlib.LoggerFactory(), wrapper_class=structlog.stdlib.BoundLogger)

MakeEngine = Callable[..., Engine]


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    running = RunningGateway(tmp_path_factory.mktemp("gateway"))
    yield running
    running.stop()


@pytest.fixture
def gateway(module_gateway: RunningGateway, engine: MakeEngine) -> Iterator[RunningGateway]:
    del engine  # made first and so stopped last: the gateway is looked at while its engines are there
    module_gateway.in_loop(lambda: setattr(module_gateway.gateway.plane, "retries", RetryBudget()))
    yield module_gateway
    module_gateway.assert_nothing_held()


@pytest.fixture
def engine() -> Iterator[MakeEngine]:
    made: list[Engine] = []

    def make(**values: object) -> Engine:
        made.append(Engine(**values))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.stop()
