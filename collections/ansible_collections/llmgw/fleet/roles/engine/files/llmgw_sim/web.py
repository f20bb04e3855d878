# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 for the simulator: reads requests, answers whole or as server-sent events, notices who hangs up."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from http import HTTPStatus
from typing import Awaitable, Callable, NamedTuple

MAX_HEAD_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 1024 * 1024
JSON_TYPE = "application/json"


class Request(NamedTuple):
    """One request, read completely; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ApiError(Exception):
    """An answer in the error shape of vLLM, which is OpenAI's with the status as `code`."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}


def bad_request(message: str, param: str | None = None) -> ApiError:
    """The error for a request that cannot be understood."""
    return ApiError(400, message, "BadRequestError", param)


def server_error(message: str) -> ApiError:
    """The error for an engine that gave up."""
    return ApiError(500, message, "InternalServerError")


class _BrokenError(Exception):
    """Bytes that are no HTTP/1.1 request; the connection ends."""


def take_request(buffer: bytearray) -> Request | None:
    """The first request in `buffer`, removed from it; None while it is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > MAX_HEAD_BYTES:
            raise _BrokenError("the header is too long")
        return None
    first, *rest = buffer[:end].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):  # noqa: PLR2004 - method, target, version
        raise _BrokenError(f"not a request line: {first[:80]!r}")
    headers = {}
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon:
            raise _BrokenError(f"not a header: {line[:80]!r}")
        headers[name.lower()] = value.strip()
    if words[2] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        taken = _take_chunks(buffer, end + 4)
    else:
        taken = _take_sized(buffer, end + 4, headers.get("content-length", "0"))
    if taken is None:
        return None
    body, size = taken
    del buffer[:size]
    return Request(words[0], words[1].partition("?")[0], headers, body)


def _take_sized(buffer: bytearray, start: int, length: str) -> tuple[bytes, int] | None:
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise _BrokenError(f"content-length {length[:20]!r} is no number up to {MAX_BODY_BYTES}")
    end = start + int(length)
    return (bytes(buffer[start:end]), end) if len(buffer) >= end else None


def _take_chunks(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        try:
            size = int(buffer[start:line_end].partition(b";")[0], 16)
        except ValueError:
            raise _BrokenError("not a chunk size") from None
        if len(body) + size > MAX_BODY_BYTES:
            raise _BrokenError("the body is too long")
        start, end = line_end + 2, line_end + 2 + size
        if len(buffer) < end + 2:
            return None
        if not size:
            return bytes(body), end + 2
        body += buffer[start:end]
        start = end + 2


class Connection(asyncio.Protocol):
    """One client connection, requests one after another. `handle` answers a request by calling the methods below.

    A client that hangs up cancels the handler; an ApiError becomes the answer, also in mid-stream.
    """

    def __init__(self, handle: Callable[[Request, Connection], Awaitable[None]], everyone: set[Connection]) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handle = handle
        self._everyone = everyone
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._streaming = False
        self._named_events = False
        self._close_after = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - create_server promises it
        self._transport = transport
        self._everyone.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the cause changes nothing
        """The client is gone, or the connection was closed here: nobody waits for an answer."""
        self.closed.set_result(None)
        self._everyone.discard(self)
        if self._task:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; pipelined ones wait their turn."""
        self._buffer += data
        self._next()

    def reply(self, status: int, body: bytes, content_type: str = JSON_TYPE) -> None:
        """Answers with one whole body; an empty one has no type."""
        self._head(status, content_type if body else "", f"content-length: {len(body)}")
        self._transport.write(body)

    def reply_json(self, body: object, status: int = 200) -> None:
        """Answers with one JSON document."""
        self.reply(status, json.dumps(body).encode())

    def start_events(self, *, named: bool = False) -> None:
        """Begins an answer of server-sent events: as in vLLM, its header leaves before the first token exists.

        Events that have names are those of the newer APIs, which also end without [DONE].
        """
        self._streaming = True
        self._named_events = named
        self._head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked")

    def event(self, data: object, name: str = "") -> None:
        """Sends one event, a JSON document or a text as it is."""
        first = f"event: {name}\n" if name else ""
        event = f"{first}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
        self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))

    def end_events(self) -> None:
        """Ends the answer as its API does."""
        if not self._named_events:
            self.event("[DONE]")
        self._transport.write(b"0\r\n\r\n")
        self._streaming = False

    def fail(self, error: ApiError) -> None:
        """Answers with an error; in mid-stream that is an event, and the status stays 200 (vLLM's way)."""
        if self._streaming:
            self.event(error.body, "error" if self._named_events else "")
            self.end_events()
        else:
            self.reply_json(error.body, error.status)

    def close(self) -> None:
        """Closes the connection when all is sent and nothing is being answered."""
        self._close_after = True
        if not self._task:
            self._transport.close()

    def break_off(self) -> None:
        """Ends the connection at once, in the middle of whatever it says."""
        self._transport.abort()

    def _head(self, status: int, content_type: str, framing: str) -> None:
        connection = "\r\nconnection: close" if self._close_after else ""
        kind = f"content-type: {content_type}\r\n" if content_type else ""
        head = f"HTTP/1.1 {status} {_phrase(status)}\r\nserver: llmgw-sim\r\n{kind}{framing}{connection}\r\n\r\n"
        self._transport.write(head.encode())

    def _next(self) -> None:
        if self._task or self._transport.is_closing():
            return
        try:
            request = take_request(self._buffer)
        except _BrokenError as error:
            self._close_after = True
            self.fail(bad_request(str(error)))
            self._transport.close()
            return
        if request:
            self._close_after |= request.headers.get("connection", "").lower() == "close"
            self._task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            await self._handle(request, self)
        except ApiError as error:
            self.fail(error)
        except asyncio.CancelledError:
            if not self._transport.is_closing():  # not the client's doing: the engine is going down
                self._close_after = True
                self.fail(server_error("EngineCore is shutting down: the request was aborted."))
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer and the log a trace
            traceback.print_exc(file=sys.stderr)
            self.fail(server_error(f"{type(error).__name__}: {error}"))
        finally:
            self._task = None
            if self._close_after:
                self._transport.close()
            else:
                self._next()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"
