# SPDX-License-Identifier: Apache-2.0
"""The one door to the code shared with the nodes: re-exports the collection's module_utils (architecture: layers)."""

from __future__ import annotations

try:
    from ansible_collections.llmgw.fleet.plugins.module_utils import contract, unitchange, unitfile
except ImportError as error:
    import ansible_collections

    _SEEN = ", ".join(sorted(map(str, ansible_collections.__path__)))
    _MESSAGE = (
        f"the collection llmgw.fleet that belongs to this llmgw cannot be imported ({error}); "
        f"another ansible_collections package hides it: {_SEEN}. Reinstall llmgw, or take that path off sys.path."
    )
    raise ImportError(_MESSAGE) from error

__all__ = ["contract", "unitchange", "unitfile"]


def collect_here(*, scope: str, model_dirs: list[str] | None) -> contract.NodeFacts:
    """The facts of this machine, by the very code that runs on nodes (D17)."""
    from ansible_collections.llmgw.fleet.plugins.module_utils import host, node

    return node.collect(host.Host(), node.Options(scope=scope, model_dirs=model_dirs))
