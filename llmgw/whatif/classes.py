# SPDX-License-Identifier: Apache-2.0
"""Device classes by name or unambiguous prefix: the fleet's own first, then the catalog's, then the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from llmgw.capability.device_classes import MEMORY_MIB, known_class
from llmgw.catalog.problem import listed
from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot
from llmgw.model.replica import Catalog

_MIG = "-mig-"


def class_named(text: str, catalog: Catalog, fleet: FleetSnapshot) -> str:
    """The class that `text` names: `h200-141g` by its name or as `h200`. MIG classes only by a text that has `-mig`.

    Raises LlmgwError `unknown-class`, and `ambiguous-class` where a source has several that the text may mean.
    """
    of_fleet = {device.device_class for node in fleet.nodes for device in node.devices or ()}
    of_catalog = {name for service in catalog.services for profile in service.profiles for name in profile.devices}
    sources: tuple[Iterable[str], ...] = (of_fleet, of_catalog, MEMORY_MIB)
    known = known_class(text)
    if any(text in source for source in sources) or (known is not None and known.mig and known.memory_mib):
        return text
    for source in sources:
        found = sorted(name for name in source if _means(text, name))
        if len(found) > 1:
            raise LlmgwError("ambiguous-class", f"{text} may be {' or '.join(found)}", fix="write the whole name")
        if found:
            return found[0]
    every = sorted({str(name) for source in sources for name in source})
    products = {name.partition("-")[0] for name in every}
    product = text.partition("-")[0]
    near = [product] if product in products else difflib.get_close_matches(product, sorted(products), cutoff=0.7)
    meant = [name for name in every if name.partition("-")[0] in near]
    meant = [name for name in meant if name.startswith(text)] or meant
    fix = f"did you mean {' or '.join(meant)}?" if meant else f"known are {listed(every)}"
    why = f"no device class is known by the name {text}"
    raise LlmgwError("unknown-class", why, fix=fix)


def _means(text: str, name: str) -> bool:
    return name.startswith(f"{text}-") and (_MIG in f"{text}-" or _MIG not in name)
