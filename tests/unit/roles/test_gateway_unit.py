# SPDX-License-Identifier: Apache-2.0
"""The unit that the role gateway writes: what it lets the gateway write to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest

TEMPLATES = Path(__file__).parents[3] / "collections/ansible_collections/llmgw/fleet/roles/gateway/templates"
VALUES: dict[str, Any] = {
    "gateway_home": "/root",
    "gateway_secrets_dir": "/etc/llmgw",
    "llmgw_gateway_admin_listen": "",
    "llmgw_gateway_bundle": "/var/lib/llmgw/bundle.json",
    "llmgw_gateway_command": [],
    "llmgw_gateway_drain_s": 120,
    "llmgw_gateway_listen": "",
    "llmgw_gateway_log": "",
    "llmgw_gateway_secrets": {},
    "llmgw_gateway_user": "llmgw-gateway",
    "llmgw_prefix": "/opt/llmgw",
}


def lines(scope: str) -> list[str]:
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined)  # noqa: S701 - no HTML
    environment.filters["regex_replace"] = lambda text, pattern, new: re.sub(pattern, new, text)
    environment.tests["match"] = lambda text, pattern: re.match(pattern, text) is not None
    return environment.get_template("llmgw-gateway.service.j2").render(VALUES, llmgw_scope=scope).splitlines()


@pytest.mark.parametrize(("scope", "sandboxed"), [("system", True), ("user", False)])
def test_a_gateway_that_may_write_nowhere_has_a_folder_for_its_access_log(scope: str, sandboxed: bool) -> None:
    unit = lines(scope)
    assert ("ProtectSystem=strict" in unit) is sandboxed
    assert ("LogsDirectory=llmgw" in unit) is sandboxed
