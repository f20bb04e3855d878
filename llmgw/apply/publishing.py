# SPDX-License-Identifier: Apache-2.0
"""Steps that give gateways their routes, with the bundle as finished text. Pure."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from llmgw.decide import Decision
from llmgw.fleet.document import fleet_document
from llmgw.model.ids import Digest
from llmgw.model.node import FleetSnapshot, NodeState
from llmgw.model.plan import Publish
from llmgw.model.route import BUNDLE_FORMAT, Bundle, RouteTable
from llmgw.plan.codec import plan_summary
from llmgw.routes.codec import dump_halves, routes_digest

_SLACK_S = 60
"""Beyond all that the module itself waits for: writing the bundle, its lock, one request that hangs."""
_RELOAD_S = 10
_READY_S = 30
"""What the module gives a gateway to go by new routes, and to see what they name answer."""


class Publishing:
    """Makes the publish steps of one run: whom they reach, and what all of its bundles have in common."""

    def __init__(self, decision: Decision, fleet: FleetSnapshot, in_play: frozenset[str]) -> None:
        self._written_at = fleet.taken_at
        self._rest = dump_halves(
            replace(self._bundle(RouteTable(()), 0, ""), fleet=fleet_document(fleet), plan=plan_summary(decision.plan))
        )[1]
        self.gateways = [one.name for one in fleet.gateways if one.state is NodeState.OK and one.name in in_play]
        """Those that answer and may be touched in this run."""
        self._all_reached = len(self.gateways) == len(fleet.gateways)

    def step(self, step: Publish, generation: int) -> dict[str, Any]:
        """The step that gives these routes to every gateway that can be reached. The bundle comes in halves (see
        `llmgw.routes.codec.dump_halves`); the second, which is the larger one, is the same text in every step.
        """
        trials = max((trial.timeout_s for trial in step.trials), default=0)
        digest = routes_digest(step.routes)
        return {
            "kind": "publish",
            "hosts": list(self.gateways),
            "bundle": dump_halves(self._bundle(step.routes, generation, digest))[0],
            "bundle_rest": self._rest,
            "generation": generation,
            "routes_digest": digest,
            "drain": list(step.drain),
            "drain_timeout_s": step.drain_timeout_s,
            "floors": [asdict(floor) | {"stay": list(floor.stay), "drain": list(floor.drain)} for floor in step.floors],
            "ready": list(step.ready),
            "trials": [asdict(trial) | {"endpoints": list(trial.endpoints)} for trial in step.trials],
            "timeout_s": _RELOAD_S + 2 * _READY_S + step.drain_timeout_s + trials + _SLACK_S,
        }

    def blind_s(self, step: Publish) -> int:
        """Seconds to wait because some gateway cannot be asked what it has in flight (G6b)."""
        return step.drain_timeout_s if step.drain and not self._all_reached else 0

    def _bundle(self, routes: RouteTable, generation: int, digest: str) -> Bundle:
        return Bundle(BUNDLE_FORMAT, generation, Digest(digest), routes, self._written_at)
