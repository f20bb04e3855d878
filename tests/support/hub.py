# SPDX-License-Identifier: Apache-2.0
"""A hub for tests: a real HTTP server that answers what huggingface_hub asks, for models made up here.

It can be slow, hang in the middle of a file, send less than it says, want a token, and hand large files out from a
store at another address, as the public hub does.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

_LARGE = 1024
"""Bytes from which files are in the store, under their SHA-256."""
_PIECE = 64 * 1024


@dataclass
class Model:
    """A repository: commits by revision, files by name."""

    files: dict[str, bytes]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": "a" * 40})
    token: str | None = None
    gated: bool = False

    def commit(self, revision: str) -> str | None:
        """The commit that a revision names."""
        return revision if revision in self.revisions.values() else self.revisions.get(revision)


@dataclass
class Hub:
    """The models, and how the server behaves. `hold_at`: bytes of a file after which it waits for `go_on`."""

    models: dict[str, Model] = field(default_factory=dict)
    hold_at: dict[str, int] = field(default_factory=dict)
    cut_at: dict[str, int] = field(default_factory=dict)
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and range of every request."""
    tokens: list[tuple[str, str]] = field(default_factory=list)
    """Path and Authorization header of the requests that had one."""
    address: str = ""
    store: str = ""

    def gets(self, name: str) -> list[str | None]:
        """The ranges by which a file's content was asked for."""
        return [asked for method, path, asked in self.asked if method == "GET" and path.endswith(f"/{name}")]


@contextmanager
def serving(hub: Hub, address: str = "127.0.0.1", port: int = 0) -> Iterator[Hub]:
    """The hub, as a server at `hub.address` with its store at `hub.store`, until the block ends."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    servers = [ThreadingHTTPServer((address, one), handler) for one in (port, port + 1 if port else 0)]
    # The library takes what redirects to the same host name for the hub itself.
    names = (address, "localhost" if address == "127.0.0.1" else address)
    hub.address, hub.store = (
        f"http://{name}:{server.server_address[1]}" for name, server in zip(names, servers, strict=True)
    )
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        for server in servers:
            server.shutdown()
            server.server_close()


@functools.lru_cache(maxsize=64)
def blob(content: bytes) -> str:
    """The name that a file's content has on the hub."""
    if len(content) >= _LARGE:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def tensors(size: int, seed: int = 0) -> bytes:
    """A safetensors file with one tensor of so many bytes, which no two seeds have alike."""
    header = json.dumps({f"weight{seed}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    pattern = hashlib.sha256(str(seed).encode()).digest()
    return len(header).to_bytes(8, "little") + header + (pattern * (size // len(pattern) + 1))[:size]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: ClassVar[Hub]

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, self.headers.get("Range")))
        authorization = self.headers.get("Authorization")
        if authorization is not None:
            self.hub.tokens.append((path, authorization))
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"] and len(parts) > 5:
            self._api("/".join(parts[2:4]), parts[4], "/".join(parts[5:]))
        elif len(parts) > 4 and parts[2] == "resolve":
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        elif parts[0] == "store":
            content = next(
                one for model in self.hub.models.values() for one in model.files.values() if blob(one) == parts[1]
            )
            self._content(parts[2], content, {})
        else:
            self._refuse(404, "EntryNotFound", "no such page")

    def _model(self, name: str, revision: str) -> tuple[Model, str] | None:
        model = self.hub.models.get(name)
        allowed = model is not None and (
            model.token is None or self.headers.get("Authorization") == f"Bearer {model.token}"
        )
        if model is None or not allowed:
            if model is not None and model.gated:
                self._refuse(403, "GatedRepo", "Access to this model is restricted")
            else:
                self._refuse(401, "RepoNotFound", "Invalid username or password.")
            return None
        commit = model.commit(revision)
        if commit is None:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return model, commit

    def _api(self, name: str, what: str, revision: str) -> None:
        found = self._model(name, revision)
        if found is None:
            return
        model, commit = found
        if what == "tree":
            self._json([_tree_entry(path, content) for path, content in model.files.items()])
        else:
            siblings = [_sibling(path, content) for path, content in model.files.items()]
            self._json({"_id": "0", "id": name, "modelId": name, "sha": commit, "private": False, "siblings": siblings})

    def _file(self, name: str, revision: str, path: str) -> None:
        found = self._model(name, revision)
        if found is None:
            return
        model, commit = found
        content = model.files.get(path)
        if content is None:
            self._refuse(404, "EntryNotFound", "no such file")
            return
        headers = {"X-Repo-Commit": commit, "ETag": f'"{blob(content)}"'}
        if len(content) >= _LARGE:
            more = {
                "X-Linked-Size": str(len(content)),
                "X-Linked-ETag": f'"{blob(content)}"',
                "Location": f"{self.hub.store}/store/{blob(content)}/{path.rpartition('/')[2]}",
            }
            self._send(302, headers | more, b"")
        else:
            self._content(path, content, headers)

    def _content(self, path: str, content: bytes, headers: dict[str, str]) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        if wanted:
            headers |= {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        self.send_response(206 if wanted else 200)
        for key, value in {
            **headers,
            "Content-Length": str(len(content) - start),
            "Accept-Ranges": "bytes",
        }.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        name = path.rpartition("/")[2]
        hold, cut = self.hub.hold_at.get(name), self.hub.cut_at.get(name)
        at = start
        while at < len(content):
            if cut is not None and at >= cut:
                self.close_connection = True
                return
            if hold is not None and at >= hold:
                self.hub.go_on.wait(60)
            stops = [one for one in (hold, cut) if one is not None and one > at]
            end = min([at + _PIECE, len(content), *stops])
            try:
                self.wfile.write(content[at:end])
            except OSError:
                return
            at = end

    def _json(self, value: Any) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
        self._send(status, headers, json.dumps({"error": message}).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass


def _sibling(path: str, content: bytes) -> dict[str, Any]:
    large: dict[str, Any] = (
        {"lfs": {"sha256": blob(content), "size": len(content), "pointerSize": 134}} if len(content) >= _LARGE else {}
    )
    return {"rfilename": path, "size": len(content), "blobId": blob(b"")} | (large or {"blobId": blob(content)})


def _tree_entry(path: str, content: bytes) -> dict[str, Any]:
    large: dict[str, Any] = (
        {"lfs": {"oid": blob(content), "size": len(content), "pointerSize": 134}} if len(content) >= _LARGE else {}
    )
    return {"type": "file", "path": path, "size": len(content), "oid": blob(b"") if large else blob(content)} | large
