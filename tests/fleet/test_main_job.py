# SPDX-License-Identifier: Apache-2.0
"""The main job on four real hosts: real Ansible over real ssh, real units, real engines, a real gateway, the official
client.

Every test begins with an apply of its own catalog, so that their order does not matter.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.fleet.lab.hosts import Lab
from tests.fleet.site import GATEWAY, Site, build_wheel, recap, wait_for

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("fleet")
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    lab.inventory(folder / "hosts.yml", groups={"fleet": lab.hosts, "gateway": [GATEWAY]})
    (folder / "group_vars").mkdir()
    variables = {
        "llmgw_wheelhouse": "/opt/wheels",
        "llmgw_wheel": str(wheel),
        "llmgw_model_dirs": ["/srv/models"],
        "llmgw_gateway_listen": "0.0.0.0:8080",
    }
    (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
    made = Site(lab, folder)
    made.catalog()
    made.playbook("prepare", timeout=280)
    made.playbook("gateway", timeout=280)
    yield made
    made.catalog()
    made.apply()
    assert made.units() == {}, "the hosts are others' again"


def test_three_services_with_six_replicas_are_planned_started_and_answer_the_official_client(site: Site) -> None:
    site.catalog(real=2, fast=2, slow=2)
    done = site.apply()
    assert "Plan:" in done.out
    assert len(site.units()) == 6
    with site.client() as client:
        assert {one.id for one in client.models.list()} == {"real", "fast", "slow"}
        messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]
        for name in ("real", "fast", "slow"):
            answer = client.chat.completions.create(model=name, messages=messages, max_tokens=8)
            assert answer.choices[0].message.content
            assert answer.usage is not None
            assert answer.usage.completion_tokens > 0
            chunks = list(client.chat.completions.create(model=name, messages=messages, max_tokens=8, stream=True))
            assert any(chunk.choices and chunk.choices[0].delta.content for chunk in chunks)


def test_a_second_apply_changes_nothing_by_command_and_by_playbook(site: Site) -> None:
    site.catalog(real=1, fast=3)
    site.apply()
    before = site.units()
    assert "Nothing to do" in site.apply().out
    counters = recap(site.playbook("apply"))
    assert {host: one["changed"] for host, one in counters.items()} == dict.fromkeys(site.lab.hosts, 0)
    assert site.units() == before
    assert site.actions() == {}


def test_scaling_touches_only_what_comes_and_goes(site: Site) -> None:
    site.catalog(fast=3)
    site.apply()
    three = site.units()
    site.catalog(fast=5)
    site.apply()
    five = site.units()
    assert len(five) == 5
    assert three.items() <= five.items()
    site.catalog(fast=2)
    site.apply()
    two = site.units()
    assert len(two) == 2
    assert two.items() <= three.items()
    wait_for(lambda: len(site.endpoints()) == 2, 10, "the gateway to forget three endpoints")


def test_a_changed_argument_restarts_only_the_units_of_its_service(site: Site) -> None:
    site.catalog(fast=3, slow=2)
    site.apply()
    before = site.units()
    site.catalog(fast=3, slow=2, fast_args='--ttft-ms, "7"')
    assert site.actions() == {f"fast/{number}": "update" for number in range(3)}
    site.apply()
    after = site.units()
    assert before.keys() == after.keys()
    restarted = {name for name in before if before[name] != after[name]}
    assert {name.partition(".")[0] for name in restarted} == {"fast"}
    assert len(restarted) == 3


def test_requests_go_on_while_replicas_are_replaced(site: Site) -> None:
    site.catalog(slow=1, fast=2)
    site.apply()
    stop = threading.Event()
    answered: list[int] = []
    failures: list[str] = []

    def ask() -> None:
        with site.client() as client:
            while not stop.is_set():
                try:
                    chunks = client.chat.completions.create(
                        model="fast", messages=[{"role": "user", "content": "count"}], max_tokens=20, stream=True
                    )
                    answered.append(sum(1 for _chunk in chunks))
                except Exception as error:  # noqa: BLE001 - any failure of any kind fails the test
                    failures.append(repr(error))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for one in askers:
        one.start()
    try:
        site.catalog(slow=1, fast=2, fast_args='--ttft-ms, "9"')
        site.apply()
    finally:
        stop.set()
        for one in askers:
            one.join(timeout=70)
    assert not failures, failures[:3]
    assert len(answered) > 10


def test_check_mode_predicts_exactly_what_apply_then_does(site: Site) -> None:
    site.catalog(fast=2, slow=1)
    site.apply()
    site.catalog(fast=1, slow=2, fast_args='--ttft-ms, "11"')
    output = site.playbook("apply", "--check", "--diff")
    assert "+ExecStart=" in output
    predicted = recap(output)
    before = site.units()
    promised = site.apply("--check", "--json").document["changed"]
    assert site.units() == before
    done = site.apply("--json").document["changed"]
    assert promised == done
    assert done
    changed_hosts = {host for host, one in predicted.items() if one["changed"]}
    assert changed_hosts == {one["host"] for one in done}


def test_a_service_that_leaves_the_catalog_leaves_the_hosts(site: Site) -> None:
    site.catalog(fast=2, slow=2)
    site.apply()
    site.catalog(fast=2)
    site.apply()
    assert {name.partition(".")[0] for name in site.units()} == {"fast"}
    for host in site.lab.hosts:
        assert (
            "llmgw-slow" not in site.lab.ssh(host, "ls /etc/systemd/system /var/lib/llmgw/last-good", check=True).stdout
        )


def test_a_lost_host_gives_only_its_own_replicas_away_and_its_return_moves_nothing_back(site: Site) -> None:
    site.catalog(fast=4, slow=4, lost_after="3s")
    site.apply()
    before = site.units()
    site.lab.crash("n4")
    try:
        site.llmgw("facts", "refresh")
        wait_for(
            lambda: all(state == "failed" for name, state in site.endpoints().items() if name.endswith("@n4")),
            20,
            "the gateway to see that the endpoints of n4 fail",
        )

        def lost() -> bool:
            site.llmgw("facts", "refresh")
            return "move" in site.actions().values()

        wait_for(lost, 40, "n4 to count as lost")
        moved = site.actions()
        assert set(moved.values()) == {"move"}
        assert moved.keys() == {
            name.partition("@")[0].rpartition(".")[0].replace(".", "/") for name in before if name.endswith("@n4")
        }
        site.apply()
        survivors = {name: run for name, run in before.items() if not name.endswith("@n4")}
        assert survivors.items() <= site.units().items()
    finally:
        site.lab.start("n4")
    settled = {name for name in site.units() if not name.endswith("@n4")}
    site.apply()
    assert set(site.units()) == settled
    assert site.actions() == {}


def test_an_engine_that_does_not_start_ends_the_rollout_and_what_served_goes_on_serving(site: Site) -> None:
    site.catalog(fast=2)
    site.apply()
    site.catalog(fast=2, fast_args="--fail-load")
    done = site.apply(status=4)
    assert "put back" in done.out
    assert "| " in done.out, "the end of the engine's log is shown"
    assert "Later waves were not begun" in done.err
    assert len(site.units()) == 2
    with site.client() as client:
        for _ in range(4):
            answer = client.chat.completions.create(
                model="fast", messages=[{"role": "user", "content": "still there?"}]
            )
            assert answer.choices[0].message.content
    site.catalog(fast=2)
    site.apply()
    assert site.actions() == {}


def test_an_unreachable_host_is_named_and_the_others_are_planned_and_applied(site: Site) -> None:
    site.catalog(fast=4)
    site.apply()
    there = {name for name in site.units() if name.endswith("@n3")}
    assert there, "n3 has a replica that must stay where it is"
    site.lab.cut("n3")
    try:
        refreshed = site.llmgw("facts", "refresh")
        assert "n3" in refreshed.err
        site.catalog(fast=6)
        done = site.apply()
        assert "n3 does not answer" in done.out
        assert len(site.endpoints()) == 6
    finally:
        site.lab.heal("n3")
    site.apply()
    assert there <= set(site.units())
    assert site.actions() == {}


def test_cut_off_facts_cost_nothing_but_a_message(site: Site) -> None:
    site.catalog(fast=3)
    site.apply()
    site.llmgw("facts", "refresh")
    path = site.folder / "facts" / "n2.json"
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    done = site.llmgw("plan")
    assert done.status == 0
    assert "n2.json" in done.err
    assert "facts-broken" in done.err
    assert "Nothing to do" in done.out
    path.write_text(whole)


def test_secrets_and_paths_of_the_controller_reach_no_unit(site: Site) -> None:
    site.catalog(real=1, fast=1)
    site.apply()
    for host in site.lab.hosts:
        text = site.lab.ssh(host, "cat /etc/systemd/system/llmgw-*.service 2>/dev/null || true", check=True).stdout
        assert str(site.folder) not in text
        assert str(Path.home()) not in text
