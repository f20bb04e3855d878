# SPDX-License-Identifier: BSD-2-Clause
"""Which weights lie in the model directories of a node (D12): hub caches, plain directories, GGUF, Ollama.

Private to llmgw. The search is bounded in depth, calls and time, since a model directory may be the root of a large
share or lie on a dead one; what was found by then counts.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Iterable

from ansible_collections.llmgw.fleet.plugins.module_utils import contract
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery import (
    weights_directory,
    weights_findings,
    weights_hub,
    weights_ollama,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.printable import printable
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_place import Places
from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights_search import (
    Bounds,
    Found,
    Job,
    Reach,
    Search,
)

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host

BUDGET_S = 12.0
_VISITS = {
    weights_directory.DIRECTORY: weights_directory.visit,
    weights_hub.REPOSITORY: weights_hub.visit,
    weights_ollama.STORE: weights_ollama.visit,
}


def read_weights(
    host: Host,
    directories: Iterable[str],
    filesystems: Iterable[contract.Filesystem],
    budget_s: float = BUDGET_S,
    bounds: Bounds | None = None,
) -> tuple[tuple[contract.Weights, ...], tuple[contract.Finding, ...]]:
    """The weights under these directories by path, and what kept the search from seeing all of them.

    A directory inside another is searched once. `filesystems` are the node's, to say on which of them weights lie;
    `bounds` replaces the usual ones, of which `budget_s` is the time.
    """
    bounds = bounds or Bounds(budget_s)
    begun = time.monotonic()
    places = Places(host, directories, filesystems, bounds.answer_s)

    def visit(reach: Reach, job: Job) -> Found:
        found = _VISITS[job.kind](reach, job)
        return found._replace(seen=tuple(places.placed(reach, one) for one in found.seen))

    jobs = [Job(weights_directory.DIRECTORY, root, root) for root in places.roots]
    left = bounds._replace(budget_s=bounds.budget_s - (time.monotonic() - begun))
    outcome = Search(host, left, visit, places.device).run(jobs)
    outcome.hanging.extend(places.hanging)
    by_path = {one.weights.path: one.weights for one in outcome.seen}
    kept = [_printable(by_path[path]) for path in sorted(by_path)]
    return tuple(kept[: bounds.most]), weights_findings.judge(outcome, bounds)


def _printable(weights: contract.Weights) -> contract.Weights:
    """The same with names that are text: a name in another encoding cannot be written into facts as it is."""
    return replace(
        weights,
        model=printable(weights.model),
        path=printable(weights.path),
        missing=tuple(map(printable, weights.missing)),
        architecture=None if weights.architecture is None else _printable_words(weights.architecture),
    )


def _printable_words(architecture: contract.ModelArchitecture) -> contract.ModelArchitecture:
    return contract.ModelArchitecture(**{name: _word(value) for name, value in asdict(architecture).items()})


def _word(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
