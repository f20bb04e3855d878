# SPDX-License-Identifier: Apache-2.0
"""The admin listener: documents, metrics, console, and who may see them (G8, G9, G10, V2)."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llmgw.errors import LlmgwError
from llmgw.gateway.admin.fleet_view import read_fleet
from llmgw.model.replica import GatewaySpec
from llmgw.routes.codec import dump_bundle
from tests.gateway.client import CHAT, Client, asking
from tests.gateway.conftest import MakeEngine
from tests.gateway.harness import RunningGateway, bundle, endpoint, eventually, fetch, route, write

TOKEN = "admin-secret"
WITH_TOKEN = GatewaySpec(probe_interval_s=0.1, admin_token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest())
FLEET: dict[str, Any] = {
    "format_version": 1,
    "taken_at": 1_700_000_000.0,
    "nodes": [
        {
            "name": "n2",
            "state": "ready",
            "address": "10.0.0.2",
            "labels": {"rack": "r1"},
            "cordoned": True,
            "drained": False,
            "memory_total_bytes": 8_123_456_789,
            "memory_available_bytes": None,
            "devices": [
                {"name": "0", "class": "l40s-45g", "uuid": "GPU-1", "memory_total_mib": 46068, "blocked_by": []},
                {"name": "1", "class": "l40s-45g", "uuid": "GPU-2", "blocked_by": ["ecc"]},
            ],
            "units": [{"name": "llmgw-chat.0.0.service", "replica": "chat/0", "state": "active", "port": 18000}],
            "facts_age_s": 3.5,
            "findings": [{"code": "ecc", "severity": "block", "message": "<script>alert(1)</script> & more"}],
        },
        {"name": "n1", "state": "lost", "devices": None},
        {"name": "n3", "state": "ready", "devices": []},
    ],
}


def publish(gateway: RunningGateway, engine: MakeEngine, **more: Any) -> None:
    one = endpoint(engine(), node="n2")
    finding = {"code": "no-room", "severity": "warn", "message": "chat/1 has no place", "remedy": "add a node"}
    gateway.publish(
        [route([one], desired=2, aliases=("also",))], fleet=FLEET, findings=(finding,), plan={"steps": []}, **more
    )


def test_every_document_is_versioned_and_as_its_description_says(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    described = gateway.get("/api/v1/openapi.json")
    paths = [path for path in described["paths"] if path.startswith("/api/v1/") and "{" not in path]
    assert {path.rpartition("/")[2] for path in paths} == {
        "status", "endpoints", "routes", "services", "replicas", "nodes", "plan", "findings",
        "requests",
    }  # fmt: skip
    for path in paths:
        document = gateway.get(path)
        reference = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        properties = described["components"]["schemas"][reference.rpartition("/")[2]]["properties"]
        assert set(document) == set(properties), path
        assert (document["format_version"], document["generation"]) == (1, gateway.generation)


def test_documents_say_what_the_bundle_and_the_gateway_know(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    status = gateway.get("/api/v1/status")
    assert (status["endpoints_by_state"], status["nodes_by_state"]) == ({"ready": 1}, {"lost": 1, "ready": 2})
    nodes = gateway.get("/api/v1/nodes")["nodes"]
    assert [node["name"] for node in nodes] == ["n1", "n2", "n3"]
    assert [node["devices"] if node["devices"] is None else len(node["devices"]) for node in nodes] == [None, 2, 0]
    assert nodes[1]["memory_available_bytes"] is None
    replica = gateway.get("/api/v1/replicas")["replicas"]
    assert [(one["replica"], one["state"], one["units"][0]["node"]) for one in replica] == [("chat/0", "ready", "n2")]
    service = gateway.get("/api/v1/services")["services"][0]
    assert (service["desired"], service["ready"], service["endpoints"][0]["id"]) == (2, 1, "chat/0@n2")
    assert [(one["node"], one["code"]) for one in gateway.get("/api/v1/findings")["findings"]] == [
        ("n2", "ecc"),
        (None, "no-room"),
    ]
    assert gateway.get("/api/v1/plan")["plan"] == {"steps": []}


def test_every_error_has_one_shape(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    for method, path, status, code in (
        ("GET", "/api/v1/nope", 404, "not-found"),
        ("GET", "/nothing", 404, "not-found"),
        ("POST", "/api/v1/status", 405, "method-not-allowed"),
        ("GET", "/docs", 404, "not-found"),
    ):
        answer = fetch(gateway.admin_url + path, method)
        assert (answer[0], set(json.loads(answer[2])["error"])) == (status, {"code", "message", "fix"})
        assert json.loads(answer[2])["error"]["code"] == code
    assert fetch(gateway.admin_url + CHAT, "POST", asking())[0] == 404


def test_metrics_have_absent_series_for_what_is_unknown_and_for_what_is_gone(
    gateway: RunningGateway, engine: MakeEngine
) -> None:
    publish(gateway, engine)
    assert fetch(gateway.url + CHAT, "POST", asking(stream=True))[0] == 200
    seen = gateway.metrics()
    assert seen['llmgw_node_memory_total_bytes{node="n2"}'] == 8_123_456_789
    assert not any(name.startswith("llmgw_node_memory_available_bytes") for name in seen)
    assert seen['llmgw_nodes{state="ready"}'] == 2
    assert {name: value for name, value in seen.items() if name.startswith("llmgw_devices")} == {
        'llmgw_devices{class="l40s-45g",state="blocked"}': 1,
        'llmgw_devices{class="l40s-45g",state="usable"}': 1,
    }
    assert seen["llmgw_generation"] == gateway.generation
    assert seen['llmgw_services_desired_replicas{service="chat"}'] == 2
    assert seen['llmgw_endpoint_state{endpoint="chat/0@n2",service="chat",state="ready"}'] == 1
    assert seen['llmgw_requests_total{code="200",service="chat"}'] >= 1
    assert seen['llmgw_time_to_first_byte_seconds_count{service="chat"}'] >= 1
    assert seen['llmgw_request_duration_seconds_bucket{le="+Inf",service="chat"}'] >= 1
    gateway.publish([])
    seen = gateway.metrics()
    assert not any("chat" in name for name in seen)
    assert not any(name.startswith("llmgw_node") for name in seen)


def test_metrics_are_in_prometheus_format_with_help_and_type(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    _status, headers, body = fetch(gateway.admin_url + "/metrics")
    assert headers["content-type"].startswith("text/plain; version=")
    families = re.findall(r"^# TYPE (\S+) (\S+)$", body.decode(), re.MULTILINE)
    assert len({name for name, _kind in families if name.startswith("llmgw_")}) >= 22
    assert {"counter", "gauge", "histogram"} == {kind for _name, kind in families}
    openmetrics = fetch(
        gateway.admin_url + "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )
    assert openmetrics[2].endswith(b"# EOF\n")


def test_the_console_shows_state_and_escapes_what_others_wrote(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    status, headers, body = fetch(gateway.admin_url + "/admin")
    page = body.decode()
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    for words in ("chat/0@n2", "1 of 2 ready", "2 l40s-45g", "8 GB", "also called also", "no-room"):
        assert words in page, words
    assert re.search(r"<th scope=\"row\">n1</th>\s*<td>lost</td>\s*<td>-</td>\s*<td class=\"number\">-</td>", page)
    for link in re.findall(r"(?:href|src)=\"([^\"]+)\"", page):
        assert link.startswith("/"), "nothing may come from elsewhere"
        assert fetch(gateway.admin_url + link)[0] == 200
    assert b"http" not in fetch(gateway.admin_url + "/admin/console.css")[2]


@pytest.mark.parametrize("path", ["/", "/admin/"])
def test_the_console_is_found_from_the_paths_beside_it(gateway: RunningGateway, engine: MakeEngine, path: str) -> None:
    publish(gateway, engine)
    status, headers, _body = fetch(gateway.admin_url + path)
    assert (status, headers["location"]) == (307, "/admin")


def test_with_a_token_nothing_but_health_is_shown_without_it(gateway: RunningGateway, engine: MakeEngine) -> None:
    routes = [route([endpoint(engine())])]
    gateway.generation += 1
    write(gateway.bundle_path, dump_bundle(bundle(gateway.generation, routes, gateway=WITH_TOKEN)))
    eventually(lambda: fetch(gateway.admin_url + "/metrics")[0] == 401, "the token is asked for")
    pages = ("/", "/admin", "/admin/", "/admin/console.css")
    for path in (*pages, "/api/v1/status", "/metrics", "/api/v1/openapi.json", "/nope"):
        for authorization in (
            "",
            "Bearer wrong",
            f"bearer {TOKEN}x",
            "Basic !!!",
            "Basic " + base64.b64encode(b"a:b").decode(),
        ):
            status, headers, body = fetch(gateway.admin_url + path, headers={"authorization": authorization})
            assert (status, json.loads(body)["error"]["code"]) == (401, "admin-token"), (path, authorization)
            assert "Basic" in headers["www-authenticate"]
    basic = "Basic " + base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for authorization in (f"Bearer {TOKEN}", basic):
        assert fetch(gateway.admin_url + "/admin", headers={"authorization": authorization})[0] == 200
    assert fetch(gateway.admin_url + "/healthz")[0] == 200
    gateway.generation += 1
    write(gateway.bundle_path, dump_bundle(bundle(gateway.generation, routes)))
    eventually(lambda: fetch(gateway.admin_url + "/metrics")[0] == 200, "the token is gone again")


def test_without_a_token_only_this_machines_names_are_answered(gateway: RunningGateway, engine: MakeEngine) -> None:
    publish(gateway, engine)
    port = gateway.admin_url.rpartition(":")[2]
    for host, status in {
        f"127.0.0.1:{port}": 200,
        f"localhost:{port}": 200,
        "localhost": 200,
        "[::1]:80": 200,
        "evil.example": 403,
        f"evil.example:{port}": 403,
        "localhost.evil.example": 403,
        "localhost#@evil": 403,
    }.items():
        assert fetch(gateway.admin_url + "/api/v1/status", headers={"host": host})[0] == status, host
    with Client(gateway.admin_url) as client:
        client.send(b"GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n")
        assert client.answer()[0] == 403


def test_an_open_admin_listener_on_the_network_is_refused_at_start(tmp_path: Path) -> None:
    with pytest.raises(LlmgwError, match="admin listener can be reached from other machines") as refused:
        RunningGateway(tmp_path, admin_listen="0.0.0.0:0")
    assert refused.value.code == "admin-open"
    assert "admin_token_sha256" in (refused.value.fix or "")


def test_an_admin_listener_on_the_network_loses_everything_with_its_token(tmp_path: Path) -> None:
    running = RunningGateway(tmp_path, bundle(1, [], gateway=WITH_TOKEN), admin_listen="0.0.0.0:0")
    try:
        assert running.get("/api/v1/status", token=TOKEN)["generation"] == 1
        write(running.bundle_path, dump_bundle(bundle(2, [])))
        eventually(lambda: fetch(running.admin_url + "/api/v1/status")[0] == 403, "closed")
        assert fetch(running.admin_url + "/api/v1/status", headers={"authorization": f"Bearer {TOKEN}"})[0] == 403
    finally:
        running.stop()


def test_changed_listeners_are_reported_as_needing_a_restart(tmp_path: Path) -> None:
    started = GatewaySpec(listen="127.0.0.1:0", admin_listen="127.0.0.1:0", probe_interval_s=0.1)
    running = RunningGateway(tmp_path, bundle(1, [], gateway=started), listen=None)
    try:
        assert running.get("/api/v1/status")["restart_needed"] == []
        running.publish([], gateway=replace(started, listen="127.0.0.1:1", admin_listen="127.0.0.1:2"))
        assert running.get("/api/v1/status")["restart_needed"] == ["listen"]
        (finding,) = running.get("/api/v1/findings")["findings"]
        assert finding["code"] == "gateway-restart-needed"
        assert finding["remedy"] == "systemctl restart llmgw-gateway.service"
    finally:
        running.stop()


@pytest.mark.parametrize(
    "strange",
    [
        None,
        {},
        {"nodes": None},
        {"nodes": {"a": 1}},
        {
            "nodes": [
                1,
                None,
                "x",
                {},
                {"name": 5},
                {"name": "ok", "devices": 7, "units": "x", "labels": [], "findings": [None, {}]},
            ]
        },
        {
            "taken_at": "now",
            "nodes": [{"name": "ok", "devices": [{}, {"blocked_by": "x", "memory_total_mib": True}], "units": [{}]}],
        },
    ],
)
def test_a_fleet_document_of_another_version_is_read_as_far_as_it_goes(strange: dict[str, Any] | None) -> None:
    fleet = read_fleet(strange)
    assert fleet.taken_at is None
    assert {node.name for node in fleet.nodes} <= {"ok"}
