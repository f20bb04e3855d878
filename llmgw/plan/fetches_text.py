# SPDX-License-Identifier: Apache-2.0
"""What a plan fetches, for people: which weights, where to, and how much (D12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from llmgw.model.plan import Fetch

_NODES_SHOWN = 8
_GB = 10**9


def fetch_lines(fetches: Iterable[Fetch]) -> Iterator[str]:
    """A line a model and directory: `fetch Qwen/Qwen3-32B to n1:/srv/models, 65 GB`."""
    alike: dict[tuple[str, str | None, str, int | None], list[str]] = {}
    for one in fetches:
        alike.setdefault((one.hf_id, one.revision, one.directory, one.size_bytes), []).append(one.node)
    for (hf_id, revision, directory, size), nodes in sorted(alike.items(), key=lambda item: (item[0][0], item[1])):
        what = f"{hf_id}@{revision}" if revision else hf_id
        if len(nodes) == 1:
            yield f"fetch {what} to {nodes[0]}:{directory}, {_amount(size)}"
            continue
        more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
        where = f"{directory} on {', '.join(sorted(nodes)[:_NODES_SHOWN])}{more}"
        yield f"fetch {what} to {where}, {_amount(size)}{' each' if size is not None else ''}"


def _amount(size: int | None) -> str:
    """65 GB, 0.3 GB."""
    if size is None:
        return "size unknown"
    return f"{size / _GB:.0f} GB" if size >= 10 * _GB else f"{size / _GB:.1f} GB"
