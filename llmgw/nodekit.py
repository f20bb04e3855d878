# SPDX-License-Identifier: Apache-2.0
"""The one door to the code shared with the nodes: re-exports the collection's module_utils (architecture: layers)."""

from __future__ import annotations

from pathlib import Path

try:
    from ansible_collections.llmgw.fleet.plugins.module_utils import contract, readiness, unitchange, unitfile
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import parts
except ImportError as error:
    import ansible_collections

    _SEEN = ", ".join(sorted(map(str, ansible_collections.__path__)))
    _MESSAGE = (
        f"the collection llmgw.fleet that belongs to this llmgw cannot be imported ({error}); "
        f"another ansible_collections package hides it: {_SEEN}. Reinstall llmgw, or take that path off sys.path."
    )
    raise ImportError(_MESSAGE) from error

__all__ = ["contract", "parts", "readiness", "unitchange", "unitfile"]


def version() -> str:
    """The version of llmgw, from the collection's galaxy.yml: the one place that has it."""
    galaxy = Path(contract.__file__).parents[3] / "galaxy.yml"
    return next(
        line.split()[1] for line in galaxy.read_text(encoding="utf-8").splitlines() if line.startswith("version:")
    )


def collect_here(*, scope: str, model_dirs: list[str] | None) -> contract.NodeFacts:
    """The facts of this machine, by the very code that runs on nodes (D17)."""
    # Imported here: nothing else of llmgw needs the probes.
    from ansible_collections.llmgw.fleet.plugins.module_utils import host  # noqa: PLC0415
    from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import node  # noqa: PLC0415

    return node.collect(host.Host(), node.Options(scope=scope, model_dirs=model_dirs, module_version=version()))
