# SPDX-License-Identifier: Apache-2.0
"""Variables of hosts that look like llmgw's and that nothing reads. A typing error changes a plan unseen."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from llmgw.errors import LlmgwError
from llmgw.fleet.hosts import VARIABLES, Host

PREFIX = "llmgw_"
ROLE_VARIABLES = (
    "llmgw_allow_mass_loss",
    "llmgw_by",
    "llmgw_capture_dir",
    "llmgw_capture_redact",
    "llmgw_catalog",
    "llmgw_command",
    "llmgw_controller_command",
    "llmgw_controller_environment",
    "llmgw_controller_fleet",
    "llmgw_controller_user",
    "llmgw_discovery_timeout_s",
    "llmgw_engine_constraints",
    "llmgw_engine_extra_index_urls",
    "llmgw_engine_extras",
    "llmgw_engine_index_url",
    "llmgw_engine_keep",
    "llmgw_engine_kinds",
    "llmgw_engine_packages",
    "llmgw_engine_python",
    "llmgw_engine_requirements",
    "llmgw_engine_timeout_s",
    "llmgw_engine_versions",
    "llmgw_facts_dir",
    "llmgw_fetch_margin_bytes",
    "llmgw_fetch_poll_s",
    "llmgw_fetch_stall_s",
    "llmgw_fetch_timeout_s",
    "llmgw_gateway_admin_listen",
    "llmgw_gateway_admin_token_file",
    "llmgw_gateway_admin_url",
    "llmgw_gateway_bundle",
    "llmgw_gateway_command",
    "llmgw_gateway_drain_s",
    "llmgw_gateway_listen",
    "llmgw_gateway_log",
    "llmgw_gateway_python",
    "llmgw_gateway_secrets",
    "llmgw_gateway_user",
    "llmgw_gather",
    "llmgw_hf_endpoint",
    "llmgw_history_dir",
    "llmgw_hub_python",
    "llmgw_hub_version",
    "llmgw_lost_nodes",
    "llmgw_marks",
    "llmgw_nvml",
    "llmgw_nvml_version",
    "llmgw_port_range",
    "llmgw_prefix",
    "llmgw_reconcile",
    "llmgw_reconcile_interval_s",
    "llmgw_reconcile_max_actions",
    "llmgw_reconcile_metrics_file",
    "llmgw_reconcile_move_lost",
    "llmgw_reconcile_timeout_s",
    "llmgw_refresh_all",
    "llmgw_refresh_interval_s",
    "llmgw_refresh_timeout_s",
    "llmgw_saved_plan",
    "llmgw_secrets",
    "llmgw_wheel",
    "llmgw_wheelhouse",
)
"""What roles and playbooks read beside the variables that shape a plan."""
RUN_VARIABLES = (
    "llmgw_answer",
    "llmgw_capture_redact_key",
    "llmgw_discovery",
    "llmgw_known",
    "llmgw_plan",
    "llmgw_step",
    "llmgw_verdict",
    "llmgw_version",
)
"""What plays that use the modules register, as the modules' examples show it, and what llmgw hands its own."""
_KNOWN = frozenset((*VARIABLES, *ROLE_VARIABLES, *RUN_VARIABLES))
_NEAR = 2
_NAMED = 3


def unread(names: Iterable[str]) -> tuple[str, ...]:
    """Those of a host's variables that begin with `llmgw_` and that nothing reads, sorted. Names only: what the values
    are is nobody's business (R10).
    """
    return tuple(sorted(name for name in names if name.startswith(PREFIX) and name not in _KNOWN))


def unread_problems(hosts: Iterable[Host]) -> tuple[LlmgwError, ...]:
    """An error `inventory-variable` for each such variable, with the first hosts that have it. It refuses nothing."""
    return tuple(_problems(hosts))


def _problems(hosts: Iterable[Host]) -> Iterator[LlmgwError]:
    having: dict[str, list[str]] = {}
    for host in hosts:
        for name in host.unread:
            having.setdefault(name, []).append(host.name)
    for name, hosts_with in sorted(having.items()):
        near = difflib.get_close_matches(name, sorted({*VARIABLES, *ROLE_VARIABLES}), _NEAR, cutoff=0.85)
        more = f" and {len(hosts_with) - _NAMED} more" if len(hosts_with) > _NAMED else ""
        why = f"{name} of {', '.join(sorted(hosts_with)[:_NAMED])}{more} is read by nothing"
        fix = f"did you mean {' or '.join(near)}?" if near else "mend its name, or begin it otherwise than with llmgw_"
        yield LlmgwError("inventory-variable", why, fix=fix)
