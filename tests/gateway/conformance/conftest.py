# SPDX-License-Identifier: Apache-2.0
"""One simulator a module, and each test twice: its client speaks to the simulator itself, and through a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import anthropic
import openai
import pytest

from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, fetch, route
from tests.gateway.simulator import Simulator


@dataclass
class Surface:
    """What a client speaks to. The model is `m`; behind a gateway it has another name at the engine."""

    url: str
    simulator: Simulator
    gateway: RunningGateway | None


def answers(simulator: Simulator) -> bool:
    try:
        return fetch(simulator.url + "/health")[0] == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    names = ("--served-model-name", "sim-weights", "m")
    running = Simulator("sim-weights", *names, "--ttft-ms", "5", "--itl-ms", "5")
    eventually(lambda: answers(running), "the simulator answers", 20)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def running_gateway(simulator: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    running = RunningGateway(tmp_path_factory.mktemp("gateway"), bundle(1, [route([endpoint(simulator)])]))
    eventually(lambda: set(running.states().values()) == {"ready"}, "the simulator is ready", 20)
    yield running
    running.stop()


@pytest.fixture(params=["simulator", "gateway"])
def surface(request: pytest.FixtureRequest, simulator: Simulator) -> Iterator[Surface]:
    simulator.fault()
    if request.param == "simulator":
        yield Surface(simulator.url, simulator, None)
        simulator.fault()
        return
    running: RunningGateway = request.getfixturevalue("running_gateway")
    eventually(lambda: set(running.states().values()) == {"ready"}, "the simulator is ready", 20)
    yield Surface(running.url, simulator, running)
    simulator.fault()
    running.assert_nothing_held()


@pytest.fixture
def through_gateway(running_gateway: RunningGateway, simulator: Simulator) -> Iterator[Surface]:
    """For what a gateway answers itself."""
    simulator.fault()
    yield Surface(running_gateway.url, simulator, running_gateway)
    simulator.fault()
    running_gateway.assert_nothing_held()


def openai_client(url: str, key: str = "none", **more: object) -> openai.OpenAI:
    values: dict[str, object] = {"max_retries": 0, "timeout": 20} | more
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, **values)  # type: ignore[arg-type]


def anthropic_client(url: str, key: str = "none", **more: object) -> anthropic.Anthropic:
    values: dict[str, object] = {"max_retries": 0, "timeout": 20} | more
    return anthropic.Anthropic(base_url=url, api_key=key, **values)  # type: ignore[arg-type]


@pytest.fixture
def client(surface: Surface) -> Iterator[openai.OpenAI]:
    with openai_client(surface.url) as made:
        yield made


@pytest.fixture
def claude(surface: Surface) -> Iterator[anthropic.Anthropic]:
    with anthropic_client(surface.url) as made:
        yield made
