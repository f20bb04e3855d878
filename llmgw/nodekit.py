# SPDX-License-Identifier: Apache-2.0
"""The one door to the code shared with the nodes: re-exports the collection's module_utils (architecture: layers)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    from ansible_collections.llmgw.fleet.plugins.module_utils import (
        contract,
        rdma_ports,
        readiness,
        unitchange,
        unitfile,
    )
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.errors import CaptureError
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import parts
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings.kinds import KINDS as TEXT_KINDS
except ImportError as error:
    import ansible_collections

    _SEEN = ", ".join(sorted(map(str, ansible_collections.__path__)))
    _MESSAGE = (
        f"the collection llmgw.fleet that belongs to this llmgw cannot be imported ({error}); "
        f"another ansible_collections package hides it: {_SEEN}. Reinstall llmgw, or take that path off sys.path."
    )
    raise ImportError(_MESSAGE) from error

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture.taking import Taken

_ANSWER_S = 2.0

__all__ = [
    "TEXT_KINDS",
    "CaptureError",
    "Unreadable",
    "contract",
    "parts",
    "rdma_ports",
    "readiness",
    "unitchange",
    "unitfile",
]


def version() -> str:
    """The version of llmgw, from the collection's galaxy.yml: the one place that has it."""
    galaxy = Path(contract.__file__).parents[3] / "galaxy.yml"
    return next(
        line.split()[1] for line in galaxy.read_text(encoding="utf-8").splitlines() if line.startswith("version:")
    )


# The probes are imported where they are called: nothing else of llmgw needs them.


def collect_here(*, scope: str, model_dirs: list[str] | None) -> contract.NodeFacts:
    """The facts of this machine, by the very code that runs on nodes (D17)."""
    from ansible_collections.llmgw.fleet.plugins.module_utils import host  # noqa: PLC0415
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import bounded, node  # noqa: PLC0415

    return bounded.collect(host.Host(), node.Options(scope=scope, model_dirs=model_dirs, module_version=version()))


def no_directories(paths: Iterable[str]) -> list[str]:
    """Those of the paths that are no directories of this machine; one that does not answer is not among them."""
    from ansible_collections.llmgw.fleet.plugins.module_utils import apart  # noqa: PLC0415

    found = []
    for path in paths:
        with contextlib.suppress(apart.NoResult):
            if not apart.call(partial(Path.is_dir, Path(path)), _ANSWER_S):
                found.append(path)
    return found


def capture_here(path: Path, *, scope: str, model_dirs: list[str] | None, redact: bool) -> Taken:
    """Captures this machine as an archive (D16). Raises OSError."""
    from ansible_collections.llmgw.fleet.plugins.module_utils import host  # noqa: PLC0415
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture import taking  # noqa: PLC0415
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node  # noqa: PLC0415

    options = node.Options(scope=scope, model_dirs=model_dirs, module_version=version())
    return taking.write(host.Host(), options, str(path), None, taking.Redaction() if redact else None)


def facts_in_capture(path: Path) -> contract.NodeFacts:
    """The facts that this version makes of a capture, wherever it was made (D16). Raises CaptureError."""
    from ansible_collections.llmgw.fleet.plugins.module_utils.capture import loading, taking  # noqa: PLC0415

    return taking.facts_in(loading.load(str(path)), version())


def read_text(kind: str, text: str) -> dict[str, Any]:
    """What a tool's output says, as discovery reads it: JSON values. Raises Unreadable; `kind` is of TEXT_KINDS."""
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings import kinds  # noqa: PLC0415

    return kinds.reading(kind, text)


def weights_here(directory: Path) -> tuple[contract.Weights, ...]:
    """Weights in a directory of this machine, as discovery sees those of a model directory; by path (P13)."""
    from ansible_collections.llmgw.fleet.plugins.module_utils import host  # noqa: PLC0415
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import weights  # noqa: PLC0415

    return weights.read_weights(host.Host(), [str(directory)], ())[0]


def read_model_config(content: bytes) -> contract.ModelArchitecture:
    """What a config.json says of its model (P13). Raises Unreadable."""
    from ansible_collections.llmgw.fleet.plugins.module_utils.readings import model_config  # noqa: PLC0415

    return model_config.read_config(content)
