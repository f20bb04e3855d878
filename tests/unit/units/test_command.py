# SPDX-License-Identifier: Apache-2.0
"""The command line of a unit: behind the guard where it is needed, and nowhere else."""

from __future__ import annotations

from llmgw.engines.vllm import Vllm
from llmgw.model.node import NodeSettings
from llmgw.nodekit import unitfile
from tests.support import systemd_syntax as systemd
from tests.support.fleets import profile
from tests.unit.units.unit_cases import USER, Case, alone, group, machine, wide

SECRETS = {"HF_TOKEN": "hf", "VLLM_API_KEY": "key"}


def started(case: Case) -> list[str]:
    (value,) = [value for _section, key, value in systemd.settings(case.unit.text) if key == "ExecStart"]
    return systemd.command(value.replace("%h", "/home/op"))


def test_a_replica_of_one_member_without_secrets_runs_its_engine_itself() -> None:
    assert started(alone(profile()))[0] == "/opt/llmgw/engines/sim/bin/llmgw-sim"


def test_secrets_are_named_to_the_guard_and_loaded_by_systemd() -> None:
    case = alone(profile(secrets=SECRETS))
    plain = started(alone(profile()))
    words = ["--secret", "HF_TOKEN=hf", "--secret", "VLLM_API_KEY=key", "--"]
    assert started(case) == ["/usr/bin/env", "python3", "-I", "/var/lib/llmgw/guard.py", *words, *plain]
    assert "LoadCredential=hf:/var/lib/llmgw/secrets/hf\n" in case.unit.text
    assert "LoadCredential=key:/var/lib/llmgw/secrets/key\n" in case.unit.text


def test_two_variables_with_one_secret_load_it_once() -> None:
    assert alone(profile(secrets={"A": "hf", "B": "hf"})).unit.text.count("LoadCredential=") == 1


def test_a_group_is_told_its_digest_its_rank_and_every_member() -> None:
    for rank in (0, 1):
        case = group(wide("vllm"), rank)
        words = started(case)
        digest = unitfile.parse(case.unit.text).group
        told = ["--group", str(digest), "--rank", str(rank), "--member", "0=10.0.0.1:18002", "--member"]
        assert words[: words.index("--")] == [
            *["/usr/bin/env", "python3", "-I", "/var/lib/llmgw/guard.py", *told, "1=10.0.0.2:18012"],
            *["--stop-timeout", "30"],
        ]
        assert words[words.index("--") + 1] == Vllm.traits.default_command


def test_members_reached_over_ipv6_are_told_in_brackets() -> None:
    nodes = (machine("n1", gpus=8, settings=None), machine("n2", gpus=8))
    first, second = (one.__class__(one.name, f"fd00::{one.name[1:]}", one.state) for one in nodes)
    assert "1=[fd00::2]:18012" in started(group(wide("vllm"), 0, nodes=(first, second)))


def test_followers_are_given_longer_to_end_than_the_leader_takes_to_drain() -> None:
    leader, follower = (group(wide("vllm"), rank).unit for rank in (0, 1))
    assert follower.stop_timeout_s > leader.stop_timeout_s > 30


def test_below_a_users_home_the_guard_the_secrets_and_the_log_are_found_by_its_manager() -> None:
    text = alone(profile(secrets=SECRETS), machine(settings=USER, journal=False)).unit.text
    assert " python3 -I %h/.local/state/llmgw/guard.py --secret " in text
    assert "LoadCredential=hf:%h/.local/state/llmgw/secrets/hf\n" in text
    assert "StandardOutput=append:%h/.local/state/llmgw/logs/llmgw-chat.0.0.log\n" in text


def test_a_state_folder_of_signs_is_one_word_everywhere() -> None:
    settings = NodeSettings(state_dir="/srv/50% full $HOME")
    case = alone(profile(secrets=SECRETS), machine(settings=settings))
    assert started(case)[3] == "/srv/50% full $HOME/guard.py"
    assert "LoadCredential=hf:/srv/50%% full $HOME/secrets/hf\n" in case.unit.text
