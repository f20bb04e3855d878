# SPDX-License-Identifier: Apache-2.0
"""What serves: replicas as units say they run, as a placement will start them, or as gateways serve them."""

from __future__ import annotations

from llmgw.catalog.gateway_secrets import secret_variable
from llmgw.engines.registry import api_key_secret, engine_of
from llmgw.model.ids import EngineKind, NodeName, ReplicaId
from llmgw.model.node import Node, NodeState
from llmgw.model.placement import Assignment
from llmgw.model.unit import Readiness, UnitFile
from llmgw.nodekit import contract, unitchange, unitfile
from llmgw.routes.build import Serving

_ASKS_FOR_A_KEY = "\nApiKey="


def from_unit(service: str, unit: contract.ObservedUnit, node: Node) -> Serving | None:
    """The replica of a unit that runs on a node which is not lost; None when it does not run or names no port."""
    if node.state is NodeState.LOST or not unitchange.is_running(unit) or unit.port is None or unit.replica is None:
        return None
    name = unit.served_name or unit.model or service
    engine = engine_of(unit.engine or "")
    health = Readiness(
        kind="http",
        address=unit.address or node.address,
        port=unit.port,
        health_path=engine.traits.health_path if engine else "/health",
        expect_model=name,
    )
    return Serving(
        service=service,
        replica=ReplicaId(unit.replica),
        node=node.name,
        engine=EngineKind(unit.engine or "unknown"),
        model=name,
        health=health,
        process_digest=unit.running_digest or unit.process_digest,
        device_class=_device_class(node, unit.devices),
        devices=len(unit.devices),
        api_key_env=_key(unitfile.parse(unit.text).api_key if unit.text and _ASKS_FOR_A_KEY in unit.text else None),
    )


def from_assignment(assignment: Assignment, leader: UnitFile, node: Node) -> Serving:
    """The replica as it will serve once its unit has started."""
    devices = tuple(assignment.leader.devices)
    return Serving(
        service=assignment.service.name,
        replica=assignment.replica,
        node=node.name,
        engine=assignment.profile.engine,
        model=leader.readiness.expect_model or assignment.service.served_name,
        health=leader.readiness,
        process_digest=leader.process_digest,
        device_class=_device_class(node, devices),
        devices=len(devices),
        api_key_env=_key(api_key_secret(assignment.profile)),
    )


def from_published(one: contract.PublishedEndpoint) -> Serving:
    """The replica as gateways serve it: its unit cannot be seen now."""
    replica, _, node = one.id.rpartition("@")
    usual = Readiness(kind="http")
    health = Readiness(
        kind="http",
        address=one.address,
        port=one.port,
        health_path=one.health_path or usual.health_path,
        models_path=one.models_path or usual.models_path,
        expect_model=one.model,
    )
    return Serving(
        service=one.service,
        replica=ReplicaId(replica),
        node=NodeName(node),
        engine=EngineKind(one.engine or "unknown"),
        model=one.model or one.service,
        health=health,
        process_digest=one.process_digest,
        device_class=one.device_class,
        devices=one.devices,
        max_model_len=one.max_model_len,
        api_key_env=one.api_key_env,
        unseen=True,
    )


def _key(secret: str | None) -> str | None:
    return None if secret is None else secret_variable(secret)


def _device_class(node: Node, uuids: tuple[str, ...]) -> str | None:
    return next((str(device.device_class) for device in node.devices or () if device.uuid in uuids), None)
