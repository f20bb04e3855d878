# SPDX-License-Identifier: Apache-2.0
"""Answers without any generated text: embeddings, ranks, scores, classes, tokens."""

from __future__ import annotations

import base64
import struct
import time
import uuid
from typing import Any

from llmgw_sim import answers
from llmgw_sim.generation import Generator
from llmgw_sim.web import Connection, bad_request

LARGEST_VECTOR = 4096
LABELS = ("amber", "birch")


class Pooling:
    """Answers these paths in the name of one model."""

    def __init__(self, generator: Generator, model: str, max_model_len: int) -> None:
        self._generator = generator
        self._model = model
        self._max_model_len = max_model_len

    async def embeddings(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /v1/embeddings."""
        texts = _texts(body.get("input"), "input")
        size = body.get("dimensions") or answers.EMBEDDING_SIZE
        if not answers.is_number(size) or not 1 <= size <= LARGEST_VECTOR:
            raise bad_request(f"dimensions must be between 1 and {LARGEST_VECTOR}", "dimensions")
        packed = body.get("encoding_format") == "base64"
        data = []
        for index, text in enumerate(texts):
            await self._generator.think(text)
            values = answers.vector(text, size)
            coded = base64.b64encode(struct.pack(f"<{size}f", *values)).decode() if packed else values
            data.append({"object": "embedding", "index": index, "embedding": coded})
        used = answers.usage(sum(map(len, texts)), 0, 0)
        connection.reply_json({"object": "list", "model": self._model, "data": data, "usage": used})

    async def rerank(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /rerank, /v1/rerank and /v2/rerank: the documents, the nearest first."""
        given = body.get("documents")
        if not isinstance(given, list) or not given:
            raise bad_request("documents must be a list of at least one text", "documents")
        query, documents = _one(body.get("query"), "query"), _texts(given, "documents")
        top = body.get("top_n") or len(documents)
        if not answers.is_number(top) or top < 1:
            raise bad_request("top_n must be at least 1", "top_n")
        scores = [await self._score(query, document) for document in documents]
        order = sorted(range(len(documents)), key=lambda index: (-scores[index], index))[:top]
        results = [
            {"index": index, "document": {"text": given[index]}, "relevance_score": scores[index]} for index in order
        ]
        total = sum(len(query) + len(document) for document in documents)
        used = {"prompt_tokens": total, "total_tokens": total}
        connection.reply_json({"id": _ident("rerank"), "model": self._model, "usage": used, "results": results})

    async def score(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /score and /v1/score: one text beside each of many, or pairs of texts."""
        first = _texts(body.get("text_1", body.get("queries")), "text_1")
        second = _texts(body.get("text_2", body.get("documents")), "text_2")
        if len(first) == 1:
            first = first * len(second)
        if len(first) != len(second):
            raise bad_request("text_1 must be one text, or as many as text_2", "text_1")
        data = [
            {"index": index, "object": "score", "score": await self._score(*pair)}
            for index, pair in enumerate(zip(first, second))
        ]
        self._reply_list("score", data, sum(map(len, first + second)), connection)

    async def classify(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /classify and /v1/classify."""
        texts = _texts(body.get("input"), "input")
        data = []
        for index, text in enumerate(texts):
            one = await self._score(["class"], text)
            probabilities = [one, 1 - one]
            label = LABELS[probabilities.index(max(probabilities))]
            data.append({"index": index, "label": label, "probs": probabilities, "num_classes": len(LABELS)})
        self._reply_list("classify", data, sum(map(len, texts)), connection)

    async def tokenize(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /tokenize."""
        if "messages" in body:
            found = answers.chat_tokens(body["messages"])
        else:
            found = answers.prompt_tokens(body.get("prompt"), "prompt")
        numbers = list(map(answers.token_id, found))
        connection.reply_json({"count": len(numbers), "max_model_len": self._max_model_len, "tokens": numbers})

    async def detokenize(self, body: dict[str, Any], connection: Connection) -> None:
        """POST /detokenize: as many words as tokens, the same for the same tokens. They are not what was tokenized."""
        found = body.get("tokens")
        if not isinstance(found, list) or not all(map(answers.is_number, found)):
            raise bad_request("tokens must be a list of token numbers", "tokens")
        connection.reply_json({"prompt": " ".join(answers.WORDS[number % len(answers.WORDS)] for number in found)})

    async def _score(self, first: list[str], second: list[str]) -> float:
        """How near two texts are, from 0 to 1."""
        await self._generator.think(first + second)
        pairs = zip(*(answers.vector(text, answers.EMBEDDING_SIZE) for text in (first, second)))
        return (1 + sum(one * other for one, other in pairs)) / 2

    def _reply_list(self, kind: str, data: list[dict[str, Any]], prompt: int, connection: Connection) -> None:
        about = {"id": _ident(kind), "object": "list", "created": int(time.time()), "model": self._model}
        connection.reply_json({**about, "data": data, "usage": answers.usage(prompt, 0, 0)})


def _ident(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex}"


def _one(given: object, param: str) -> list[str]:
    if not isinstance(given, str):
        raise bad_request(f"{param} must be a text", param)
    return answers.tokens(given)


def _texts(given: object, param: str) -> list[list[str]]:
    """The tokens of one text, or of each of a list; a list of numbers is one text."""
    if not isinstance(given, list) or all(answers.is_number(item) for item in given):
        given = [given]
    return [answers.prompt_tokens(item, param) for item in given]
