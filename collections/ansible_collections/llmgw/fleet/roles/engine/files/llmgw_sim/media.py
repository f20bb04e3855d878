# SPDX-License-Identifier: Apache-2.0
"""Audio and images: transcriptions of files nobody listens to, silence for speech, one colour for pictures."""

from __future__ import annotations

import base64
import struct
import time
import uuid
import zlib
from typing import Any

from llmgw_sim import answers
from llmgw_sim.generation import Generator
from llmgw_sim.web import Connection, bad_request

BYTES_A_TOKEN = 1024
BYTES_A_SECOND = 32_000
"""Of audio with 16,000 samples of two bytes a second."""
SPEECH_RATE = 16_000
WORDS_A_SECOND = 3
MOST_IMAGES = 10
LARGEST_IMAGE = 2048


class Media:
    """Answers these paths in the name of one model."""

    def __init__(self, generator: Generator, model: str) -> None:
        self._generator = generator
        self._model = model

    async def transcribe(self, form: dict[str, Any], connection: Connection) -> None:
        """POST /v1/audio/transcriptions and /v1/audio/translations."""
        audio = _file(form, "file")
        shape = form.get("response_format") or "json"
        if shape not in ("json", "text", "verbose_json"):
            raise bad_request(f"response_format {shape!r} is not known to the simulator", "response_format")
        pieces = [audio[start : start + BYTES_A_TOKEN] for start in range(0, len(audio), BYTES_A_TOKEN)]
        prompt = [str(zlib.crc32(piece)) for piece in pieces]
        self._generator.check(prompt, answers.COMPLETION_TOKENS)
        if str(form.get("stream", "")).lower() in ("true", "1"):
            await self._stream(prompt, connection)
            return
        words: list[str] = []
        await self._generator.say(prompt, answers.COMPLETION_TOKENS, "stop", connection, words.append)
        text = "".join(words)
        seconds = -(-len(audio) // BYTES_A_SECOND)
        if shape == "text":
            connection.reply(200, text.encode() + b"\n", "text/plain; charset=utf-8")
        elif shape == "json":
            connection.reply_json({"text": text, "usage": {"type": "duration", "seconds": seconds}})
        else:
            language = form.get("language") or "en"
            about = {"language": language, "duration": str(seconds), "segments": []}
            connection.reply_json({"text": text, **about})

    async def _stream(self, prompt: list[str], connection: Connection) -> None:
        """In vLLM's shape: chunks as of a chat."""
        about = {"id": f"trsc-{uuid.uuid4().hex}", "object": "transcription.chunk", "created": int(time.time())}

        def chunk(word: str, reason: str | None = None) -> None:
            choice = {"delta": {"content": word}, "finish_reason": reason, "stop_reason": None}
            connection.event({**about, "model": self._model, "choices": [choice]})

        connection.start_events()
        await self._generator.say(prompt, answers.COMPLETION_TOKENS, "stop", connection, chunk)
        chunk("", "stop")
        connection.end_events()

    async def speak(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/audio/speech: silence, as long as the text."""
        text = body.get("input")
        shape = body.get("response_format") or "wav"
        if not isinstance(text, str) or not text:
            raise bad_request("input must be a text", "input")
        if shape not in ("wav", "pcm"):
            raise bad_request("the simulator makes wav and pcm only", "response_format")
        spoken = answers.tokens(text)
        self._generator.check(spoken, 1)
        await self._generator.think(spoken)
        samples = bytes(2 * SPEECH_RATE * max(1, len(spoken)) // WORDS_A_SECOND // 2 * 2)
        connection.reply(200, _wave(samples) if shape == "wav" else samples, f"audio/{shape}")

    async def draw(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/images/generations, and /v1/images/edits: the colour depends on the prompt and on what is edited."""
        prompt, count = body.get("prompt"), body.get("n") or 1
        count = int(count) if isinstance(count, str) and count.isdigit() else count
        if not isinstance(prompt, str) or not prompt:
            raise bad_request("prompt must be a text", "prompt")
        if not answers.is_number(count) or not 1 <= count <= MOST_IMAGES:
            raise bad_request(f"n must be between 1 and {MOST_IMAGES}", "n")
        if body.get("response_format") not in (None, "b64_json"):
            raise bad_request("the simulator gives images as b64_json only", "response_format")
        width, height = _size(body.get("size") or "256x256")
        words = answers.tokens(prompt)
        self._generator.check(words, 1)
        data = []
        for index in range(count):
            await self._generator.think(words)
            colour = zlib.crc32(answers.as_bytes(prompt), index)
            data.append({"b64_json": base64.b64encode(_picture(width, height, colour)).decode()})
        connection.reply_json({"created": int(time.time()), "data": data, "output_format": "png"})

    async def edit(self, form: dict[str, Any], connection: Connection) -> None:
        """POST /v1/images/edits."""
        first = _file(form, "image" if "image" in form else "image[]")
        await self.draw({**form, "prompt": f"{form.get('prompt') or ''} {zlib.crc32(first)}"}, connection)


def _file(form: dict[str, Any], name: str) -> bytes:
    """The content of the first file of that name."""
    found = form.get(name)
    found = found[0] if isinstance(found, list) else found
    if not isinstance(found, bytes):
        raise bad_request(f"{name} must be a file", name)
    return found


def _size(given: object) -> tuple[int, int]:
    words = str(given).split("x") if given != "auto" else ["256", "256"]
    if len(words) != 2 or not all(word.isdecimal() and 1 <= int(word) <= LARGEST_IMAGE for word in words):  # noqa: PLR2004 - width, height
        raise bad_request(f"size must be WIDTHxHEIGHT up to {LARGEST_IMAGE}", "size")
    return int(words[0]), int(words[1])


def _wave(samples: bytes) -> bytes:
    """A RIFF file of one channel with samples of two bytes."""
    kind = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, SPEECH_RATE, 2 * SPEECH_RATE, 2, 16)
    return (
        struct.pack("<4sI4s", b"RIFF", 36 + len(samples), b"WAVE")
        + kind
        + struct.pack("<4sI", b"data", len(samples))
        + samples
    )


def _picture(width: int, height: int, colour: int) -> bytes:
    """A PNG of one colour, 24 bits."""
    line = b"\0" + struct.pack(">I", colour)[1:] * width
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(line * height, 1)),
        (b"IEND", b""),
    )
    coded = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(coded)
