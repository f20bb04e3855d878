# SPDX-License-Identifier: Apache-2.0
"""The paths of the simulator: OpenAI's, Anthropic's, vLLM's own, and /sim for tests."""

from __future__ import annotations

import asyncio
import collections
import hashlib
import hmac
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import Any, Awaitable, Callable, Dict, Tuple

from llmgw_sim import VERSION, messages
from llmgw_sim.completions import Completions
from llmgw_sim.engine import Engine
from llmgw_sim.faults import Faults, parse_faults
from llmgw_sim.forms import read_form
from llmgw_sim.generation import Generator
from llmgw_sim.media import Media
from llmgw_sim.messages import Messages
from llmgw_sim.pooling import Pooling
from llmgw_sim.responses import Responses
from llmgw_sim.web import ApiError, Connection, Request, bad_request, server_error

Handler = Callable[[Request, Connection], Awaitable[None]]
ModelPath = Tuple[Callable[[Request], Dict[str, Any]], Callable[[Dict[str, Any], Connection], Awaitable[None]]]
"""How a request that names a model is read, and who answers it."""
REMEMBERED_REQUESTS = 256
SECRET_HEADERS = ("authorization", "x-api-key")


@dataclass(frozen=True)
class Serving:
    """What is served, and to whom. The first of `names` is the one in answers and metrics."""

    names: list[str]
    max_model_len: int
    api_keys: list[str]
    with_faults: bool


class Api:
    """Answers requests from the engine; knows which are in flight, and refuses new ones once `draining`."""

    def __init__(self, engine: Engine, serving: Serving) -> None:
        self.draining = False
        self.in_flight: set[asyncio.Task[Any]] = set()
        self._engine = engine
        self._serving = serving
        self._faults = Faults()
        self._request_ids: collections.deque[str | None] = collections.deque(maxlen=REMEMBERED_REQUESTS)
        self._requests = 0
        self._last_headers: dict[str, str] = {}
        self._started = int(time.time())
        generator = Generator(engine, serving.max_model_len, lambda: self._faults)
        self._model_paths = _model_paths(generator, serving.names[0], serving.max_model_len)
        self._paths: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._health,
            ("GET", "/version"): self._version,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            **{("POST", path): self._for_model for path in self._model_paths},
        }
        if serving.with_faults:
            self._paths["GET", "/sim/state"] = self._state
            self._paths["POST", "/sim/faults"] = self._set_faults

    async def handle(self, request: Request, connection: Connection) -> None:
        """Answers one request. Raises ApiError for what is refused."""
        handler = self._paths.get((request.method, request.path))
        if handler is None:
            known = request.path in {path for method, path in self._paths}
            connection.reply_json({"detail": "Method Not Allowed" if known else "Not Found"}, 405 if known else 404)
        elif request.path.startswith("/v1/") and not self._authorised(request):
            connection.reply_json({"error": "Unauthorized"}, 401)
        elif request.path.startswith(messages.PREFIX):
            try:
                await handler(request, connection)
            except ApiError as error:
                raise messages.in_their_shape(error) from None
        else:
            await handler(request, connection)

    def _authorised(self, request: Request) -> bool:
        """Like vLLM, only paths under /v1 ask for the key."""
        given = request.headers.get("authorization", "").encode()
        keys = self._serving.api_keys
        return not keys or any(hmac.compare_digest(given, f"Bearer {key}".encode()) for key in keys)

    # --- about the engine ---------------------------------------------------------------------------------------------

    async def _health(self, _request: Request, connection: Connection) -> None:
        await asyncio.sleep(self._faults.slow_health_s)
        connection.reply(self._faults.health_status, b"")

    async def _version(self, _request: Request, connection: Connection) -> None:
        connection.reply_json({"version": f"{VERSION}+simulator"})

    async def _metrics(self, _request: Request, connection: Connection) -> None:
        text = self._engine.exposition(self._serving.names[0])
        connection.reply(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, _request: Request, connection: Connection) -> None:
        about = {"object": "model", "created": self._started, "owned_by": "llmgw-sim"}
        length = self._serving.max_model_len
        models = [{"id": name, **about, "max_model_len": length} for name in self._serving.names]
        connection.reply_json({"object": "list", "data": models})

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def _state(self, _request: Request, connection: Connection) -> None:
        finished = self._engine.metrics.finished
        connection.reply_json(
            {
                "requests": self._requests,
                "request_ids": list(self._request_ids),
                "last_headers": self._last_headers,
                "running": self._engine.running,
                "waiting": self._engine.waiting,
                "aborted": finished["abort"],
                "finished": finished["stop"] + finished["length"],
                "generated_tokens": self._engine.metrics.generation_tokens,
                "draining": self.draining,
                "faults": asdict(self._faults),
            }
        )

    async def _set_faults(self, request: Request, connection: Connection) -> None:
        self._faults = parse_faults(_json(request))
        self._engine.hang(self._faults.hang)
        connection.reply_json(asdict(self._faults))
        if self._faults.die:
            # Once the answer has left; as hard as an engine that is killed.
            asyncio.get_running_loop().call_later(0.02, os._exit, self._faults.exit_code)

    # --- inference ----------------------------------------------------------------------------------------------------

    async def _for_model(self, request: Request, connection: Connection) -> None:
        """What all requests that name a model have in common."""
        self._remember(request)
        if self.draining:
            raise server_error("EngineCore is shutting down and takes no new requests.")
        if self._faults.fail_status is not None and self._faults.count != 0:
            if self._faults.count is not None:
                self._faults.count -= 1
            raise ApiError(self._faults.fail_status, "A fault asked for by POST /sim/faults.", "SimulatedError")
        read, answer = self._model_paths[request.path]
        body = read(request)
        name = body.get("model")
        if name not in (None, *self._serving.names):
            raise ApiError(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
        task = asyncio.current_task()
        assert task  # noqa: S101 - a coroutine always runs in one
        self.in_flight.add(task)
        try:
            await answer(body, connection)
        finally:
            self.in_flight.discard(task)

    def _remember(self, request: Request) -> None:
        """Keeps what tests ask about; keys as digests only."""
        self._requests += 1
        self._request_ids.append(request.headers.get("x-request-id"))
        self._last_headers = {
            name: f"sha256:{hashlib.sha256(value.encode()).hexdigest()}" if name in SECRET_HEADERS else value
            for name, value in request.headers.items()
        }


def _json(request: Request) -> object:
    try:
        return json.loads(request.body)
    except ValueError as error:
        raise bad_request(f"Invalid JSON: {error}") from None


def _object(request: Request) -> dict[str, Any]:
    body = _json(request)
    if not isinstance(body, dict):
        raise bad_request("the body must be a JSON object")
    return body


def _form(request: Request) -> dict[str, Any]:
    return read_form(request.headers.get("content-type", ""), request.body)


def _model_paths(generator: Generator, model: str, max_model_len: int) -> dict[str, ModelPath]:
    """All paths whose requests name a model."""
    completions, responses = Completions(generator, model), Responses(generator, model)
    pooling, media = Pooling(generator, model, max_model_len), Media(generator, model)
    anthropic = Messages(generator, model)
    return {
        "/v1/chat/completions": (_object, completions.chat),
        "/v1/completions": (_object, completions.text),
        "/v1/responses": (_object, responses.create),
        messages.PREFIX: (_object, anthropic.create),
        f"{messages.PREFIX}/count_tokens": (_object, anthropic.count),
        "/v1/embeddings": (_object, pooling.embeddings),
        **dict.fromkeys(("/rerank", "/v1/rerank", "/v2/rerank"), (_object, pooling.rerank)),
        **dict.fromkeys(("/score", "/v1/score"), (_object, pooling.score)),
        **dict.fromkeys(("/classify", "/v1/classify"), (_object, pooling.classify)),
        "/v1/audio/speech": (_object, media.speak),
        **dict.fromkeys(("/v1/audio/transcriptions", "/v1/audio/translations"), (_form, media.transcribe)),
        "/v1/images/generations": (_object, media.draw),
        "/v1/images/edits": (_form, media.edit),
        "/tokenize": (_object, pooling.tokenize),
        "/detokenize": (_object, pooling.detokenize),
    }
