# SPDX-License-Identifier: Apache-2.0
"""History, rollback and saved plans on two real hosts, which have one replica of whatever an earlier test applied."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from llmgw.apply import history
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import PROJECT, Site, wait_for

pytestmark = pytest.mark.timeout(300)

HOSTS = ("n3", "n4")
STATE = "/var/lib/llmgw-history"
CATALOG = """\
version: 1
models: {{none: {{path: /dev/null}}}}
profiles:
  fast: {{model: none, engine: sim, devices: cpu, args: [--load-seconds, "{load}", --ttft-ms, "{argument}"]}}
"""


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("history")
    lab.inventory(folder / "hosts.yml", groups={"fleet": HOSTS})
    (folder / "group_vars").mkdir()
    variables = {"llmgw_engine_kinds": ["sim"], "llmgw_state_dir": STATE, "ansible_ssh_pipelining": True}
    (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
    site = Site(lab, folder)
    want(site, 1)
    site.playbook("prepare", timeout=280)
    site.apply()
    yield site
    (folder / "catalog.d" / "services.yaml").write_text("services: {}\n")
    site.apply()
    assert site.units() == {}
    for host in HOSTS:
        lab.ssh(host, f"rm -rf {STATE}", check=True)


def want(site: Site, argument: int, load: str = "0.1") -> None:
    """Writes a catalog in two files of one service, whose engine is given that argument."""
    (site.folder / "catalog.yaml").write_text(CATALOG.format(load=load, argument=argument))
    (site.folder / "catalog.d").mkdir(exist_ok=True)
    services = "services: {past: {profiles: fast, rollout: {max_surge: 0}}}\n"
    (site.folder / "catalog.d" / "services.yaml").write_text(services)


def argument(site: Site) -> str:
    """What the engine that runs was given, by its host's own word."""
    (unit,) = site.units()
    name, _, host = unit.partition("@")
    command = site.lab.ssh(host, f"systemctl show llmgw-{name}.service --property=ExecStart", check=True).stdout
    return command.partition("--ttft-ms ")[2].split()[0]


def applies(site: Site) -> tuple[history.Record, ...]:
    """The history, the newest first."""
    found = history.read(site.folder / "history", time.time())
    assert found.problems == ()
    return found.records


def test_a_rollback_brings_the_catalog_of_the_apply_before_back_and_the_history_tells_of_all(site: Site) -> None:
    want(site, 2)
    site.apply()
    want(site, 3)
    site.apply()
    assert argument(site) == "3"
    newest, before, *older = applies(site)
    assert [(one.command, one.outcome) for one in (newest, before)] == [("apply", "done")] * 2
    assert newest.generation > before.generation
    assert newest.by == before.by
    assert [(one.kind, one.replica) for one in newest.actions] == [("update", "past/0")]
    units = site.units()
    promised = site.llmgw("rollback", "--check")
    assert promised.status == 0, f"{promised.out}\n{promised.err}"
    assert "Would be done: 1 updated (restarted)" in promised.out
    assert site.units() == units
    assert len(applies(site)) == 2 + len(older)
    done = site.llmgw("rollback")
    assert done.status == 0, f"{done.out}\n{done.err}"
    assert argument(site) == "2"
    assert "still says otherwise: the next apply goes forward again" in done.err
    last = applies(site)[0]
    assert (last.command, last.outcome) == (f"rollback {before.generation}", "done")
    assert last.catalog.digest == before.catalog.digest
    rows = site.llmgw("history", "-n", "3").out.splitlines()[1:]
    assert [row.split()[2] for row in rows] == [str(one.generation) for one in (last, newest, before)]
    assert site.actions() == {"past/0": "update"}, "the next apply goes forward again"
    want(site, 2)
    assert site.actions() == {}, "with the catalog put right there is nothing to do"


def test_a_saved_plan_is_carried_out_as_it_is_or_refused_with_what_has_changed(site: Site) -> None:
    saved = site.folder / "plan.json"
    want(site, 4)
    assert site.llmgw("plan", "--out", str(saved)).status == 0
    site.apply(str(saved))
    assert argument(site) == "4"
    assert applies(site)[0].outcome == "done"
    want(site, 5)
    assert site.llmgw("plan", "--out", str(saved)).status == 0
    ((unit, run),) = site.units().items()
    name, _, host = unit.partition("@")
    site.lab.ssh(host, f"echo '# by hand' >> /etc/systemd/system/llmgw-{name}.service", check=True)
    before = applies(site)
    refused = site.apply(str(saved), status=1)
    assert f"on {host} the units" in refused.err
    assert "nothing was touched" in refused.err
    assert site.units() == {unit: run}
    assert applies(site) == before, "what was refused is no apply"


def test_an_apply_whose_controller_was_killed_is_interrupted_and_the_next_one_goes_on(site: Site) -> None:
    want(site, 7, load="60")
    before = len(applies(site))
    command = [sys.executable, "-m", "llmgw", "apply", "-i", str(site.folder)]
    run = site.lab.popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def begun() -> bool:
        assert run.poll() is None, "the apply ended before it could be killed"
        return len(applies(site)) > before

    try:
        wait_for(begun, 120, "the apply to begin")
        cut_off = applies(site)[0]
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait(timeout=60)
    assert cut_off.outcome == "running"
    assert cut_off.process.pid is not None
    with suppress(ProcessLookupError):
        os.kill(cut_off.process.pid, signal.SIGKILL)
    wait_for(lambda: applies(site)[0].outcome == "interrupted", 60, "the history to tell that it was cut off")
    assert applies(site)[0].ended is None, "nobody has written it down yet"
    want(site, 8)
    site.apply()
    assert argument(site) == "8"
    last, interrupted = applies(site)[:2]
    assert (last.outcome, interrupted.outcome, interrupted.id) == ("done", "interrupted", cut_off.id)
    assert interrupted.ended is not None, "the next apply wrote it down"
    assert site.actions() == {}
