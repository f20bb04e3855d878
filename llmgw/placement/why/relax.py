# SPDX-License-Identifier: Apache-2.0
"""Which remedies are proposed for which constraint, and in which order they are told.

A proposal is an edit; `relaxations` tries every one before it is told. A constraint that is not here has no remedy that
could be tried, such as an engine that cannot serve the profile at all.
"""

from __future__ import annotations

from llmgw.placement.why.asked import Fix
from llmgw.placement.why.catalog_fixes import (
    allow_slow_path,
    fewer_devices,
    fewer_others,
    less_disk,
    less_memory,
    more_ports,
    no_spread,
    one_node,
    other_class,
    other_parts,
    unselect,
)
from llmgw.placement.why.fabric_fixes import confirm_fabric, join_domain
from llmgw.placement.why.memory_fixes import fewer_requests, more_devices, shorter_context
from llmgw.placement.why.node_fixes import free_card, free_disk, install, label, open_node, tell_domain, update_driver

FIXES: dict[str, tuple[Fix, ...]] = {
    "node-state": (open_node,),
    "drain": (open_node,),
    "cordon": (open_node,),
    "labels": (label, unselect),
    "engine": (install,),
    "driver": (update_driver,),
    "capability": (allow_slow_path, other_class),
    "heads": (other_parts,),
    "class": (other_class,),
    "devices": (free_card, other_class, fewer_devices, fewer_others),
    "memory": (less_memory, fewer_others),
    "disk": (free_disk, less_disk),
    "device-memory": (shorter_context, fewer_requests, more_devices, other_class),
    "fabric": (join_domain, confirm_fabric, one_node),
    "partners": (one_node,),
    "spread": (tell_domain, no_spread),
    "ports": (more_ports, fewer_others),
}
"""By constraint, the cheapest kind first."""

ORDER = (
    "uncordon",
    "undrain",
    "port-range",
    "device-class",
    "reach",
    "free-disk",
    "install-engine",
    "mend-engine",
    "foreign-card",
    "mend-card",
    "driver",
    "imex",
    "join-cards",
    "fabric",
    "slow-path",
    "max_model_len",
    "parallel_requests",
    "more-devices",
    "fewer-devices",
    "one-node",
    "spread",
    "move",
    "priority",
    "fewer-replicas",
    "min_free_disk_gb",
    "min_memory_gb",
    "label-domain",
    "label",
    "node-selector",
)
"""Kinds of steps; of two that cost the same the earlier one is told first."""
