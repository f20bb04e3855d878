# SPDX-License-Identifier: Apache-2.0
"""What a catalog may not say although every field is well-formed (C5, as far as it can be told without hardware).

Each module yields problems for one part of the document. A problem names the paths it was concluded from, so that the
caller can leave out what rests on a field that is itself wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from llmgw.catalog.checks.capability import check_capability
from llmgw.catalog.checks.gateway import check_fleet, check_gateway
from llmgw.catalog.checks.later import check_later
from llmgw.catalog.checks.models import check_models
from llmgw.catalog.checks.profiles import check_profiles
from llmgw.catalog.checks.routing import check_routing
from llmgw.catalog.checks.secrets import check_secrets
from llmgw.catalog.checks.services import check_services
from llmgw.catalog.problem import Problem
from llmgw.catalog.schema.document import Document


def check(document: Document) -> Iterator[Problem]:
    """Every problem of a document, in no order."""
    yield from check_models(document)
    yield from check_profiles(document)
    yield from check_secrets(document)
    yield from check_capability(document)
    yield from check_services(document)
    yield from check_routing(document)
    yield from check_gateway(document)
    yield from check_fleet(document)
    yield from check_later(document)
