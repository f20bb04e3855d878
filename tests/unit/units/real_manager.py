# SPDX-License-Identifier: Apache-2.0
"""A real systemd manager of our own that runs units to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from llmgw.demo.managers import Manager


@dataclass(frozen=True)
class Units:
    """The manager and its folder of units."""

    manager: Manager

    def run(self, texts: Mapping[str, str]) -> None:
        """Writes units of Type=oneshot and returns when all of them have ended well."""
        folder = Path(self.manager.environment["XDG_CONFIG_HOME"]) / "systemd" / "user"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        self._systemctl("daemon-reload")
        self._systemctl("start", *texts)

    def _systemctl(self, *arguments: str) -> None:
        variables = [f"{name}={value}" for name, value in self.manager.environment.items()]
        command = [*self.manager.argv_prefix, *variables, "systemctl", "--user", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)
        assert done.returncode == 0, done.stderr
