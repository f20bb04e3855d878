# SPDX-License-Identifier: Apache-2.0
"""The simulator's paths beside chat and completions. That the official clients read them is tested with the gateway."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable

import pytest

from llmgw.gateway.wire.paths import PATHS
from tests.unit.engines_programs.programs import Program, events

TALK = [{"role": "user", "content": "one two three"}]
FORM = "multipart/form-data; boundary=xYz"


def form(*fields: tuple[str, str], file: bytes | None = b"RIFF", name: str = "file") -> bytes:
    parts = [f'form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields]
    if file is not None:
        parts.append(f'form-data; name="{name}"; filename="a"\r\n\r\n'.encode() + file)
    return b"".join(b"--xYz\r\nContent-Disposition: %b\r\n" % part for part in parts) + b"--xYz--\r\n"


def test_every_path_that_the_gateway_passes_on_is_there(shared_sim: Program) -> None:
    for path in PATHS:
        assert shared_sim.ask("POST", path.decode(), {})[0] == 400, path


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        ("/v1/responses", {}, "input must be"),
        ("/v1/responses", {"input": "x", "previous_response_id": "resp_1"}, "stores no responses"),
        ("/v1/responses", {"input": "x", "max_output_tokens": 0}, "max_output_tokens must be"),
        ("/v1/responses", {"input": "x " * 9000}, "maximum context length"),
        ("/v1/rerank", {"query": 1, "documents": ["x"]}, "query must be"),
        ("/v1/rerank", {"query": "x", "documents": "x"}, "documents must be"),
        ("/v1/rerank", {"query": "x", "documents": ["x"], "top_n": -1}, "top_n must be"),
        ("/score", {"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1 must be"),
        ("/classify", {"input": [[]]}, "input must be"),
        ("/detokenize", {"tokens": ["x"]}, "tokens must be"),
        ("/v1/audio/speech", {"input": ""}, "input must be"),
        ("/v1/audio/speech", {"input": "x", "response_format": "mp3"}, "wav and pcm"),
        ("/v1/images/generations", {"prompt": "x", "size": "big"}, "size must be"),
        ("/v1/images/generations", {"prompt": "x", "n": 11}, "n must be"),
        ("/v1/images/generations", {"prompt": "x", "response_format": "url"}, "b64_json"),
    ],
)
def test_a_request_that_means_nothing_is_answered_with_400(
    shared_sim: Program, path: str, body: object, complaint: str
) -> None:
    status, answer = shared_sim.ask("POST", path, body)
    assert status == 400
    assert complaint in answer["error"]["message"]


@pytest.mark.parametrize(
    ("content_type", "body", "complaint"),
    [
        (FORM, b'{"model": "m"}', "does not end"),
        ("application/json", form(), "multipart/form-data"),
        (FORM, form()[:-6], "does not end"),
        (FORM, form(file=None), "file must be a file"),
        (FORM, form(("file", "text"), file=None), "file must be a file"),
        (FORM, form(("response_format", "srt")), "not known"),
    ],
)
def test_a_form_that_means_nothing_is_answered_with_400(
    shared_sim: Program, content_type: str, body: bytes, complaint: str
) -> None:
    status, answer = shared_sim.ask("POST", "/v1/audio/transcriptions", body, content_type=content_type)
    assert status == 400
    assert complaint in answer["error"]["message"]


def test_the_last_of_two_models_in_a_form_counts_as_it_does_with_fastapi(shared_sim: Program) -> None:
    ask = "/v1/audio/transcriptions"
    assert shared_sim.ask("POST", ask, form(("model", "other"), ("model", "m")), content_type=FORM)[0] == 200
    assert shared_sim.ask("POST", ask, form(("model", "m"), ("model", "other")), content_type=FORM)[0] == 404


def test_a_file_with_any_bytes_is_read_whole(shared_sim: Program) -> None:
    sizes = []
    for content in (b"", b"\r\n--xY", bytes(range(256)) * 300, b"\r\n\r\n" * 9000):
        body = form(("response_format", "verbose_json"), file=content)
        status, answer = shared_sim.ask("POST", "/v1/audio/transcriptions", body, content_type=FORM)
        assert status == 200
        sizes.append((len(content), int(answer["duration"])))
    assert sizes == [(0, 0), (6, 1), (76800, 3), (36000, 2)]


def test_an_error_within_events_that_have_names_is_one_of_them(sim: Program) -> None:
    sim.ask("POST", "/sim/faults", {"error_after_chunks": 1})
    for path, body in (("/v1/responses", {"input": "x"}), ("/v1/messages", {"messages": TALK, "max_tokens": 9})):
        with sim.stream(path, body) as response:
            lines = response.read().decode().split("\n")
        assert lines[-4] == "event: error"
        assert "A fault asked for" in lines[-3]
        assert "[DONE]" not in "".join(lines)


def test_errors_about_messages_have_anthropics_shape(shared_sim: Program) -> None:
    status, answer = shared_sim.ask("POST", "/v1/messages", {"messages": TALK})
    assert (status, answer["type"]) == (400, "error")
    assert answer["error"] == {"type": "invalid_request_error", "message": "max_tokens: Field required"}
    status, answer = shared_sim.ask("POST", "/v1/messages/count_tokens", {"model": "other", "messages": TALK})
    assert (status, answer["error"]["type"]) == (404, "not_found_error")


def test_cached_tokens_are_told_in_each_apis_words(start_sim: Callable[..., Program]) -> None:
    sim = start_sim().ready()
    long = [{"role": "user", "content": "word " * 40}]
    first, used = (
        sim.ask("POST", "/v1/messages", {"messages": long, "max_tokens": 1})[1]["usage"] for _again in range(2)
    )
    assert (first["input_tokens"], first["cache_read_input_tokens"]) == (41, 0)
    assert (used["input_tokens"], used["cache_read_input_tokens"]) == (9, 32)
    used = sim.ask("POST", "/v1/responses", {"input": long})[1]["usage"]
    assert (used["input_tokens"], used["input_tokens_details"]) == (41, {"cached_tokens": 32})


def test_a_picture_is_a_png_of_the_size_asked_for(shared_sim: Program) -> None:
    status, answer = shared_sim.ask("POST", "/v1/images/generations", {"prompt": "sea", "size": "40x30"})
    assert status == 200
    picture = base64.b64decode(answer["data"][0]["b64_json"])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", picture[16:24]) == (40, 30)
    start = picture.index(b"IDAT") + 4
    (size,) = struct.unpack(">I", picture[start - 8 : start - 4])
    assert len(zlib.decompress(picture[start : start + size])) == 30 * (1 + 3 * 40)
    (check,) = struct.unpack(">I", picture[start + size : start + size + 4])
    assert check == zlib.crc32(picture[start - 4 : start + size])


def test_a_transcription_streams_as_chunks_and_ends_with_done(shared_sim: Program) -> None:
    connection = shared_sim.connect()
    connection.request("POST", "/v1/audio/transcriptions", form(("stream", "true")), {"content-type": FORM})
    with connection.getresponse() as response:
        got = events(response)
    connection.close()
    assert got[-1] == "[DONE]"
    assert {chunk["object"] for chunk in got[:-1]} == {"transcription.chunk"}
    assert json.dumps(got).count("[simulated]") == 1
