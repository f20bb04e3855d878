# SPDX-License-Identifier: Apache-2.0
"""Unit texts with true digests."""

from __future__ import annotations

from ansible_collections.llmgw.fleet.plugins.module_utils import unitfile
from ansible_collections.llmgw.fleet.plugins.module_utils.contract import ObservedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.host_change import WantedUnit
from ansible_collections.llmgw.fleet.plugins.module_utils.readiness import Readiness

NAME = "llmgw-chat.0.0.service"


def wanted(command: str = "/bin/engine", *, name: str = NAME, comment: str = "", **files: str) -> WantedUnit:
    """A unit that runs a command; `files`: environment files in /state, by the middle of their name."""
    paths = {f"/state/{name.removesuffix('.service')}.{key}": value for key, value in files.items()}
    body = f"[Service]\n# {comment}\nExecStart={command}\n"
    body += "".join(f"EnvironmentFile={path}\n" for path in sorted(paths)) + "\n"
    digest = unitfile.digest(command)
    header = unitfile.Header(replica="chat/0", rank=0, address="10.0.0.1", port=18000, process_digest=digest)
    text_digest = unitfile.text_digest(body + unitfile.section(header))
    text = body + unitfile.section(header._replace(text_digest=text_digest))
    readiness = Readiness("http", "10.0.0.1", 18000, expect_model="chat")
    return WantedUnit(name, text, digest, text_digest, readiness, environment_files=paths)


def running(unit: WantedUnit) -> ObservedUnit:
    """The same unit, as it is observed when all is well."""
    return ObservedUnit(
        name=unit.name,
        active_state="active",
        sub_state="running",
        enabled=True,
        process_digest=unit.process_digest,
        running_digest=unit.process_digest,
        text_digest=unit.text_digest,
        actual_text_digest=unit.text_digest,
        edited=False,
        needs_reload=False,
        text=unit.text,
    )
