# SPDX-License-Identifier: Apache-2.0
"""A program: makes one call of `Apply` and kills itself, with SIGKILL, at the Nth thing it does to the machine.

A thing is: a command before it runs and after it ran, a file before it reaches the disk and after its rename, a file
before it is deleted. Reads the request as JSON from standard input; prints how many things it did if it survives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness
from tests.systemd.node import Node, Wrapped


class Fuse:
    """Counts, and ends the process when it has counted far enough."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def burn(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.burn()
            value = function(*arguments, **options)
            if after:
                self.burn()
            return value

        return call


def main() -> None:
    request = json.load(sys.stdin)
    present = [WantedUnit(**{**unit, "readiness": Readiness(**unit["readiness"])}) for unit in request["present"]]
    node = Node(Wrapped(tuple(request["prefix"]), request["environment"]), Path(request["state_dir"]))
    fuse = Fuse(request["kill_at"])
    Host.run = fuse.around(Host.run, after=True)  # type: ignore[method-assign]
    os.fsync = fuse.around(os.fsync, after=False)
    Path.unlink = fuse.around(Path.unlink, after=False)  # type: ignore[method-assign]
    node.apply(present, request["absent"], generation=request["generation"])
    sys.stdout.write(f"{fuse.count}\n")


if __name__ == "__main__":
    main()
