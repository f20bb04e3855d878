# SPDX-License-Identifier: Apache-2.0
"""Where the bulk of a plan's steps lies during a run: unit texts and bundles, as files of the controller.

A playbook's variables are carried to every task of every host, and printed with what set them. Of a thousand nodes a
bundle is megabytes, and a rollout has hundreds: variables hold what a step is about, and files what it writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class Spool:
    """A folder that takes steps, one after another. It is made when the first comes, for its owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._taken = 0
        self._common: tuple[str, str] | None = None

    def light(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """The step without its bulk. Of `units` steps `hosts` is {name: {"units": [names], "path"}}, where the path is
        that of {present, absent, expected, first} as JSON; `publish` steps have `path` and `rest_path` instead of the
        halves of a bundle.
        """
        if step["kind"] == "units":
            return {**step, "hosts": {host: self._host(one) for host, one in step["hosts"].items()}}
        if step["kind"] == "publish":
            rest = {key: value for key, value in step.items() if key not in {"bundle", "bundle_rest"}}
            return rest | {"path": self._write(step["bundle"]), "rest_path": self._once(step["bundle_rest"])}
        return dict(step)

    def all_light(self, steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Each of the steps without its bulk; never more than one of them is whole in memory."""
        return [self.light(step) for step in steps]

    def _host(self, host: Mapping[str, Any]) -> dict[str, Any]:
        units = sorted([unit["name"] for unit in host["present"]] + host["absent"])
        return {"units": units, "path": self._write(json.dumps(host))}

    def _once(self, text: str) -> str:
        """The path of a text that every step of the plan has."""
        if self._common is None or self._common[0] != text:
            self._common = text, self._write(text)
        return self._common[1]

    def _write(self, text: str) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{self._taken}.json"
        self._taken += 1
        path.write_text(text, encoding="utf-8")
        return str(path)
