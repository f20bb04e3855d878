# SPDX-License-Identifier: Apache-2.0
"""The test process's end of the holder: starts it, asks it, and by closing the line ends the lab."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.fleet.lab.errors import LabError

HOLDER = Path(__file__).with_name("holder.py")
ANSWER_DEADLINE_S = 60.0
CLEAR_DEADLINE_S = 30.0


class Holding:
    """A running holder that has made the hosts of `description`; `pid` is the first process in the lab's namespaces."""

    def __init__(self, description: Mapping[str, object]) -> None:
        self._line, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (closed by `close`)
        namespaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--mount-proc", "--kill-child", "--fork"]
        with theirs:
            self._unshare = subprocess.Popen(
                ["unshare", *namespaces, sys.executable, "-I", str(HOLDER), json.dumps(description)],
                stdin=theirs.fileno(),
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        self._line.settimeout(ANSWER_DEADLINE_S)
        self._lines = self._line.makefile("rw", encoding="utf-8")
        try:
            self._answer()
            self.pid = int(Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text())
        except BaseException:
            self.close()
            raise

    def ask(self, action: str, host: str) -> object:
        """The answer to one request; raises LabError with the holder's reason when it could not do it."""
        self._lines.write(json.dumps([action, host]) + "\n")
        self._lines.flush()
        return self._answer()

    def _answer(self) -> object:
        line = self._lines.readline()
        if not line:
            self._log.seek(0)
            raise LabError(f"the lab's holder ended:\n{self._log.read()[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise LabError(answer["error"])
        return answer["ok"]

    def close(self) -> None:
        """Returns when the lab is gone; raises LabError when some of it stays."""
        # What the holder did not read before it died no longer matters.
        with suppress(OSError):
            self._lines.close()
        self._line.close()
        try:
            status = self._unshare.wait(CLEAR_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._unshare.kill()
            status = self._unshare.wait()
        with self._log as log:
            log.seek(0)
            if status != 0:
                raise LabError(f"the lab's holder ended with status {status}:\n{log.read()[-4000:]}")
