# SPDX-License-Identifier: Apache-2.0
"""`llmgw plan --why`: why a replica is where it is or has no place, and what would change that (P11)."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from llmgw.catalog.problem import listed
from llmgw.cli import exits
from llmgw.cli.style import page
from llmgw.cli.why_text import refused_lines, why_lines
from llmgw.decide import Options, bounded, decide
from llmgw.errors import LlmgwError
from llmgw.model.node import FleetSnapshot
from llmgw.model.plan import Rollout
from llmgw.model.replica import Catalog, ProfileSpec, ServiceSpec
from llmgw.model.why import Why, WhyState
from llmgw.placement.assign import Outcome, place
from llmgw.placement.why.explain import explain
from llmgw.placement.why.states import leaving
from llmgw.plan.why_codec import why_document
from llmgw.whatif.near import node_of, service_of

_NUMBER = re.compile("[0-9]{1,9}")
_PAGE = 100
_NARROWEST = 60


def why(
    catalog: Catalog,
    fleet: FleetSnapshot,
    question: str,
    node: Sequence[str] | None,
    options: Options,
    *,
    as_json: bool,
) -> int:
    """Print the answer to a question such as `chat` or `chat/2`; 3 when what was asked for has no place or cannot be
    rolled out. `node`: what these nodes say, in full. Raises LlmgwError for a name that there is not.
    """
    nodes = tuple(dict.fromkeys(node_of(fleet, name).name for name in node)) if node else None
    outcome = place(catalog, bounded(fleet, options)[0], reasons=False)
    answer = _leaves(outcome, catalog, question)
    profiles: tuple[ProfileSpec, ...] = ()
    if answer is None:
        service, number = _asked(catalog, question)
        if number is not None:
            _refuse_unknown_replica(outcome, service, number)
        answer, profiles = explain(catalog, outcome, service.name, number, nodes), service.profiles
    refused = _refused(catalog, fleet, options, answer)
    if as_json:
        rollout = None if refused is None else {"reason": refused.reason, "fix": refused.fix}
        print(json.dumps({**why_document(answer), "refused_rollout": rollout}, indent=2))
    else:
        first = [] if refused is None else [*refused_lines(refused, _width()), ""]
        print(page([*first, *why_lines(answer, profiles, _width())]))
    without = any(one.state in (WhyState.UNPLACED, WhyState.HELD) for one in answer.replicas)
    return exits.UNPLACED if without or refused is not None else exits.OK


def _refused(catalog: Catalog, fleet: FleetSnapshot, options: Options, answer: Why) -> Rollout | None:
    """The rollout of the service that is asked about, where nothing of it is done; None where nothing is in its way."""
    rollouts = decide(catalog, fleet, options).plan.rollouts
    return next((one for one in rollouts if one.refused and one.service == answer.service), None)


def _asked(catalog: Catalog, question: str) -> tuple[ServiceSpec, int | None]:
    """The service and the number of a replica. A service is also known by the names that clients use, which may have a
    slash in them: whoever is on call may know no other.
    """
    question = question.strip()
    whole = _whole(catalog, question)
    if whole is not None:
        return whole, None
    name, slash, number = question.rpartition("/")
    if not slash:
        return service_of(catalog, question), None
    if not _NUMBER.fullmatch(number):
        raise LlmgwError(
            "unknown-service",
            f"--why asks for a service or one of its replicas, not for {question!r}",
            fix="write the name of a service, such as chat, or a replica, such as chat/0",
        )
    return _called(catalog, name) or service_of(catalog, name), int(number)


def _leaves(outcome: Outcome, catalog: Catalog, question: str) -> Why | None:
    """The answer about a service that the catalog does not have any more, or about a replica too many of one; None for
    all that is wanted.
    """
    question = question.strip()
    if _whole(catalog, question) is None:
        gone = leaving(outcome, question)
        if gone is not None:
            return gone
    name, slash, number = question.rpartition("/")
    if not slash or not _NUMBER.fullmatch(number) or _whole(catalog, question) is not None:
        return None
    service = _called(catalog, name)
    name = name if service is None else service.name
    if any(one.replica == f"{name}/{number}" for one in outcome.placement.unplaced):
        return None
    if any(one.replica == f"{name}/{number}" for one in outcome.placement.assignments):
        return None
    return leaving(outcome, name, int(number))


def _whole(catalog: Catalog, question: str) -> ServiceSpec | None:
    """The service that the question names as a whole. `chat/0` is a replica where there is a service chat, whatever
    clients may call another one.
    """
    name, _slash, number = question.rpartition("/")
    if _NUMBER.fullmatch(number) and any(one.name == name for one in catalog.services):
        return None
    return _called(catalog, question)


def _called(catalog: Catalog, name: str) -> ServiceSpec | None:
    """The service of that name, else the one that clients call so."""
    by_name = (one for one in catalog.services if one.name == name)
    by_served_name = (one for one in catalog.services if name in (one.served_name, *one.aliases))
    return next(by_name, None) or next(by_served_name, None)


def _refuse_unknown_replica(outcome: Outcome, service: ServiceSpec, number: int) -> None:
    name = f"{service.name}/{number}"
    placement = outcome.placement
    known = [one.replica for one in placement.assignments if one.service.name == service.name]
    known += [one.replica for one in placement.unplaced if one.service == service.name]
    if name in known:
        return
    known.sort(key=lambda replica: int(replica.rpartition("/")[2]))
    fix = f"it has {listed(known)}" if known else "the catalog asks for no replica of it"
    raise LlmgwError("unknown-replica", f"{service.name} has no replica {number}", fix=fix)


def _width() -> int:
    """Columns of the terminal; where a file or a program reads, those of a page."""
    stream: TextIO | None = sys.stdout  # None where it is closed
    if (stream is None or not stream.isatty()) and not os.environ.get("COLUMNS"):
        return _PAGE
    return max(shutil.get_terminal_size().columns, _NARROWEST)
