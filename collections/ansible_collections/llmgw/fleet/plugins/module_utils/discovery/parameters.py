# SPDX-License-Identifier: BSD-2-Clause
"""The options of discovery as Ansible modules take them.

Private to llmgw. The documentation fragment `discovery` describes each.
"""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.node import DEFAULT_TIMEOUT_S, Options

SPEC = {
    "scope": {"type": "str", "choices": ["system", "user"], "default": "system"},
    "state_dir": {"type": "path"},
    "prefix": {"type": "path"},
    "model_dirs": {"type": "list", "elements": "path"},
    "engine_commands": {"type": "dict", "default": {}},
    "gateway_bundle": {"type": "path"},
    "gateway_admin_url": {"type": "str"},
    "gateway_admin_token_file": {"type": "path", "no_log": False},
    "gather": {"type": "list", "elements": "str", "default": ["all"]},
    "known_key": {"type": "str", "no_log": False},
    "timeout_s": {"type": "float", "default": DEFAULT_TIMEOUT_S},
}


def options(given: Mapping[str, Any]) -> Options:
    """The options that a module's parameters stand for."""
    return Options(
        scope=given["scope"],
        state_dir=given["state_dir"],
        prefix=given["prefix"],
        model_dirs=given["model_dirs"],
        engine_commands={str(kind): _words(command) for kind, command in given["engine_commands"].items()},
        gateway_bundle=given["gateway_bundle"],
        gateway_admin_url=given["gateway_admin_url"],
        gateway_admin_token_file=given["gateway_admin_token_file"],
        timeout_s=given["timeout_s"],
        gather=given["gather"],
        known_key=given["known_key"],
    )


def _words(command: object) -> tuple[str, ...]:
    return tuple(map(str, command)) if isinstance(command, list) else (str(command),)
