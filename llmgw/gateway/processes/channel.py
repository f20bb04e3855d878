# SPDX-License-Identifier: Apache-2.0
"""What the control process and a worker tell one another, over a pair of sockets: messages in msgpack.

The other end may be of another version of llmgw: a message that it does not know is passed over, and so are fields.
When one end is gone, the other one hears it at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import msgspec
import structlog

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.endpoints.health import Health

LENGTH_BYTES = 4
MOST_BYTES = 64 * 1024 * 1024
MOST_UNREAD = 8 * 1024 * 1024
"""Bytes that may wait for the other end to read; one that reads nothing hangs, and is told nothing more."""

Place = tuple[str, str, int]
"""An endpoint in all processes: id, address, port."""

log = structlog.get_logger()


class Hello(msgspec.Struct, tag="hello", frozen=True):
    """Of a worker: it has read the bundle and listens to what it is told."""


class Serving(msgspec.Struct, tag="serving", frozen=True):
    """Of a worker: it takes clients from now on."""


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """Of a worker: a request to this endpoint failed, and it should be asked how it is."""

    place: Place
    reason: str


class Problem(msgspec.Struct, tag="problem", frozen=True):
    """Of a worker: why it does not serve by the newest bundle; None: it does."""

    text: str | None


class Ejected(msgspec.Struct, tag="ejected", frozen=True):
    """Of a worker: what requests to this endpoint showed keeps further ones away, and why; None: no more."""

    place: Place
    detail: str | None


class Prompts(msgspec.Struct, tag="prompts", frozen=True):
    """Of a worker, and on to all others: prompts that it sent to this endpoint, as `prefix_news` writes them."""

    place: Place
    news: bytes


class Answer(msgspec.Struct, tag="answer", frozen=True):
    """Of a worker: what it says to a question; None: nothing."""

    number: int
    document: bytes | None


class HowItIs(msgspec.Struct, frozen=True):
    """One endpoint by its probes, and what its engine reported, in force until the loop time `until`."""

    place: Place
    health: Health
    load: EngineLoad | None = None
    until: float = 0.0


class Judged(msgspec.Struct, tag="judged", frozen=True):
    """To a worker: how these endpoints are. `everything`: there are no others."""

    endpoints: list[HowItIs]
    everything: bool = False


class Elsewhere(msgspec.Struct, tag="elsewhere", frozen=True):
    """To a worker: what all other workers have in flight, by name, without what is zero.

    Of an endpoint (by `sharing.endpoint_key`) requests, and tokens of prompts that are not read yet. `shares`: how many
    requests of a service this worker may have in flight just now, where others wait for it too.
    """

    endpoints: dict[str, tuple[int, int]]
    services: dict[str, int]
    keys: dict[str, int]
    shares: dict[str, int] = {}


class Question(msgspec.Struct, tag="question", frozen=True):
    """To a worker: `name` says what is asked, `argument` about what."""

    number: int
    name: str
    argument: str


class Retire(msgspec.Struct, tag="retire", frozen=True):
    """To a worker: another one takes the new connections. Those that it has end with their next answer."""


class Drain(msgspec.Struct, tag="drain", frozen=True):
    """To a worker: the gateway stops. Requests may finish, and nothing new begins."""


class Cut(msgspec.Struct, tag="cut", frozen=True):
    """To a worker: what is in flight is not waited for any more."""


FromWorker = Hello | Serving | Failed | Ejected | Problem | Prompts | Answer
ToWorker = Judged | Elsewhere | Prompts | Question | Retire | Drain | Cut
Message = FromWorker | ToWorker

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def pack(message: Message) -> bytes:
    """The message with its length, as it is sent."""
    data = _ENCODER.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class Unpacker:
    """Messages out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    @property
    def rest(self) -> bytes:
        """What has come of a message that is not whole."""
        return bytes(self._bytes)

    def take(self, data: bytes) -> list[Message]:
        """The messages that are whole now. Raises ValueError when the other end speaks something else."""
        self._bytes += data
        messages: list[Message] = []
        while len(self._bytes) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._bytes[:LENGTH_BYTES], "big")
            if end > MOST_BYTES:
                raise ValueError(f"a message of {end} bytes")
            if len(self._bytes) < end:
                break
            one = bytes(self._bytes[LENGTH_BYTES:end])
            del self._bytes[:end]
            try:
                messages.append(_DECODER.decode(one))
            except msgspec.ValidationError as error:
                log.info("a message of another version is passed over", error=str(error))
        return messages


class Channel(asyncio.Protocol):
    """One end of the pair. `heard` gets each message; `gone` is called once, when the other end is no more."""

    def __init__(self, heard: Callable[[Message], None], gone: Callable[[], None]) -> None:
        self._heard = heard
        self._gone = gone
        self._unpacker = Unpacker()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def over(
        cls, end: socket.socket, heard: Callable[[Message], None], gone: Callable[[], None], unread: bytes = b""
    ) -> Channel:
        """The channel over one of two connected sockets, which belongs to it from here on. `unread`: as `stop` gave."""
        loop = asyncio.get_running_loop()
        _transport, channel = await loop.create_unix_connection(lambda: cls(heard, gone), sock=end)
        if unread:
            channel.data_received(unread)
        return channel

    async def stop(self, within_s: float) -> tuple[int, bytes] | None:
        """Hears and says nothing more, so that others can go on with the connection: its open file by number, and what
        has come of a message that is not whole. None when the other end does not read what it was told.
        """
        transport = self._transport
        if transport is None or transport.is_closing():
            return None
        transport.pause_reading()
        end = asyncio.get_running_loop().time() + within_s
        while transport.get_write_buffer_size():
            if asyncio.get_running_loop().time() > end:
                return None
            await asyncio.sleep(0.01)
        return transport.get_extra_info("socket").fileno(), self._unpacker.rest

    def go_on(self) -> None:
        """Hears again after a `stop`."""
        if self._transport is not None:
            self._transport.resume_reading()

    def say(self, message: Message) -> bool:
        """Sends the message; False when the other end is gone, or reads nothing."""
        transport = self._transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > MOST_UNREAD:
            return False
        transport.write(pack(message))
        return True

    def close(self) -> None:
        """Sends what is to be sent, and ends."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Hands on what is whole. A message that makes trouble costs itself alone."""
        try:
            messages = self._unpacker.take(data)
        except ValueError as error:
            log.error("the channel between gateway processes is broken", error=str(error))  # noqa: TRY400 - no bug of ours
            if self._transport is not None:
                self._transport.abort()
            return
        for message in messages:
            try:
                self._heard(message)
            except Exception:
                log.exception("a message could not be followed", message=message.__struct_config__.tag)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other end is gone."""
        del exc
        self._transport = None
        self._gone()
