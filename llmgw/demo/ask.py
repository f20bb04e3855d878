# SPDX-License-Identifier: Apache-2.0
"""One question to a gateway, the answer yielded word by word as it streams in."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator, Iterator

from llmgw.errors import LlmgwError

_TIMEOUT_S = 60


def request_body(model: str, question: str) -> dict[str, object]:
    """The body of the question, for the request and for the curl line alike."""
    return {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 80, "stream": True}


def ask(address: tuple[str, int], model: str, question: str) -> Iterator[str]:
    """The pieces of the answer. Raises LlmgwError `demo-answer` when the gateway refuses or the stream breaks off."""
    connection = http.client.HTTPConnection(*address, timeout=_TIMEOUT_S)
    try:
        body = json.dumps(request_body(model, question))
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            said = response.read(2000).decode("utf-8", "replace")
            raise LlmgwError("demo-answer", f"the gateway answered {response.status}: {said}")
        finished = yield from _pieces(response)
        if not finished:
            raise LlmgwError("demo-answer", "the answer broke off before its end")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise LlmgwError("demo-answer", f"the gateway gave no whole answer: {error!r}") from error
    finally:
        connection.close()


def _pieces(response: http.client.HTTPResponse) -> Generator[str, None, bool]:
    """Yields the text of every event; returns whether the stream said that it is complete."""
    for line in response:
        if not line.startswith(b"data: "):
            continue
        data = line[len(b"data: ") :].strip()
        if data == b"[DONE]":
            return True
        for choice in json.loads(data).get("choices", ()):
            text = choice.get("delta", {}).get("content")
            if text:
                yield text
    return False
