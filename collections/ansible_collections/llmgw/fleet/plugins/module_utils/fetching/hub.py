# SPDX-License-Identifier: BSD-2-Clause
"""The process that talks to the hub, seen from outside (D12). Private to llmgw."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from typing import IO, Any, Callable, Mapping, Optional

from ansible_collections.llmgw.fleet.plugins.module_utils import leash
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching import child

_PASSED = (
    *("PATH", "HOME", "LANG", "TMPDIR"),
    *("http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
"""What the child gets of our environment: how to reach a hub. Nothing of a user's own settings of the library."""
_TICK_S = 1.0
_TAIL = 2000


class HubError(Exception):
    """The hub, or the way to it, failed: names of the error's classes, and its text."""

    def __init__(self, kinds: list[str], message: str) -> None:
        super().__init__(message)
        self.kinds = kinds
        self.message = message


def environment(
    ours: Mapping[str, str], home: str, endpoint: Optional[str], token_file: Optional[str]
) -> dict[str, str]:
    """The child's environment. The token stays in its file: only the file's path is told."""
    return {
        **{name: ours[name] for name in _PASSED if name in ours},
        "LC_ALL": "C.UTF-8",
        "HF_HOME": home,
        # Without one of ours, nobody's: whoever runs Ansible may have logged in here once.
        "HF_TOKEN_PATH": token_file or os.path.join(home, "no-token"),
        **({"HF_ENDPOINT": endpoint} if endpoint else {}),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        # One repository, one directory: what is shared among repositories is lost when one of them is copied.
        "HF_HUB_DISABLE_SHARED_BLOBS": "1",
        "HF_HUB_ETAG_TIMEOUT": "30",
        "HF_HUB_DOWNLOAD_TIMEOUT": "60",
        "HF_XET_CHUNK_CACHE_SIZE_BYTES": "0",
    }


class Hub:
    """A running child. Use as a context manager; what it is doing ends with the block."""

    def __init__(self, python: str, surroundings: Mapping[str, str], title: str) -> None:
        # Behind the link `current`: that may move to another version while this one runs, and the version that runs
        # is to be seen in the command line by whoever removes old ones.
        folder, name = os.path.split(python)
        python = os.path.join(os.path.realpath(folder), name) if folder else python
        self._argv = [python, "-I", "-c", _BOOTSTRAP, title]
        self._surroundings = dict(surroundings)
        self._answers: queue.Queue[Optional[str]] = queue.Queue()

    def __enter__(self) -> Hub:  # noqa: PYI034 - Self is younger than the Python of nodes
        self._errors = tempfile.TemporaryFile()
        leash.ready()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list: no shell reads it
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._surroundings,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise HubError(["ModuleNotFoundError"], f"huggingface_hub: {self._argv[0]}: {error.strerror}") from None
        leash.hold(self._process.pid)
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        self._say(inspect.getsource(child))
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        leash.let_go(self._process.pid)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def ask(self, request: Mapping[str, Any], tick: Callable[[], None]) -> dict[str, Any]:
        """The answer; `tick` is called every second until it comes, and may raise. Raises HubError."""
        self._say(dict(request))
        while True:
            tick()
            try:
                line = self._answers.get(timeout=_TICK_S)
            except queue.Empty:
                continue
            if line is None:
                raise HubError(["ended"], f"the program that talks to the hub ended: {self._last_words()}")
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict):
                    break
        if "error" in answer:
            raise HubError(list(answer["error"]), str(answer["message"]))
        return answer

    def _say(self, what: Any) -> None:
        with contextlib.suppress(OSError):  # that it ended is seen by its output
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(what).encode("ascii") + b"\n")
                self._process.stdin.flush()

    def _read(self, stream: Optional[IO[bytes]]) -> None:
        for line in stream or ():
            self._answers.put(line.decode("utf-8", "replace"))
        self._answers.put(None)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-_TAIL:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"status {self._process.poll()}"


_BOOTSTRAP = """\
import json, sys
program = {"__name__": "llmgw_weights"}
exec(compile(json.loads(sys.stdin.readline()), "llmgw_weights.py", "exec"), program)
program["main"]()
"""
