# SPDX-License-Identifier: Apache-2.0
"""The continuous mode on two real hosts: what it mends, what it leaves to people, how it begins and ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.lab.gold import PLAIN_USER
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import PROJECT, Outcome, Site, wait_for
from tests.systemd.node import SIMULATOR

pytestmark = pytest.mark.timeout(300)

HOSTS = ("n2", "n3")
STATE, PROGRAMS = "/var/lib/llmgw-reconcile", "/opt/llmgw-reconcile"
CATALOG = """\
version: 1
models: {none: {path: /dev/null}}
profiles:
  fast: {model: none, engine: sim, devices: cpu, args: [--load-seconds, "0.1"]}
services:
"""


@pytest.fixture(scope="module")
def prepared(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("reconcile")
    lab.inventory(folder / "hosts.yml", groups={"fleet": HOSTS})
    (folder / "group_vars").mkdir()
    variables = {
        "llmgw_state_dir": STATE,
        "llmgw_engine_user": PLAIN_USER,
        "llmgw_engine_commands": {"sim": ["/usr/bin/python3", "-B", f"{PROGRAMS}/llmgw_sim"]},
        "ansible_ssh_pipelining": True,
    }
    (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
    for host in HOSTS:
        lab.put(host, {f"{PROGRAMS}/llmgw_sim": SIMULATOR})
    yield Site(lab, folder)
    units = "find /etc/systemd/system -name 'llmgw-mend.*' -delete && systemctl daemon-reload"
    for host in HOSTS:
        lab.ssh(host, f"systemctl stop 'llmgw-mend.*' && {units} && rm -rf {STATE} {PROGRAMS}", check=True)


@pytest.fixture
def site(prepared: Site) -> Site:
    """Two replicas run, and no round has been yet."""
    want(prepared, 2)
    if len(prepared.units()) != 2:
        prepared.apply()
    for path in (*prepared.folder.glob("history/*.json"), *prepared.folder.glob("facts/.reconcile*")):
        path.unlink()
    return prepared


def want(site: Site, replicas: int) -> None:
    (site.folder / "catalog.yaml").write_text(f"{CATALOG}  mend: {{profiles: fast, replicas: {replicas}}}\n")


def reconcile(site: Site, *arguments: str) -> Outcome:
    return site.llmgw("reconcile", "--once", "--only-news", "--metrics-file", str(metrics(site)), *arguments)


def metrics(site: Site) -> Path:
    return site.folder / "reconcile.prom"


def stop_one(site: Site) -> str:
    """Stops a unit by hand, and tells which, as `Site.units` names it."""
    name = min(site.units())
    unit, _, host = name.partition("@")
    site.lab.ssh(host, f"systemctl stop llmgw-{unit}.service", check=True)
    return name


def test_what_drifted_is_mended_once_and_what_is_beyond_the_budget_waits_for_people(site: Site) -> None:
    before = site.units()
    stopped = stop_one(site)
    done = reconcile(site)
    assert done.status == 0, f"{done.out}\n{done.err}"
    unit, _, host = stopped.partition("@")
    assert any(line.startswith("drift: ") and unit in line and host in line for line in done.out.splitlines()), done.out
    assert "mended: 1 action in" in done.out
    mended = site.units()
    assert mended.keys() == before.keys()
    assert {name for name in mended if mended[name] != before[name]} == {stopped}
    (path,) = (site.folder / "history").glob("*.json")
    record = json.loads(path.read_text())
    assert (record["command"], record["outcome"], len(record["actions"])) == ("reconcile", "done", 1)
    again = reconcile(site)
    assert (again.status, again.out, again.err) == (0, "", "")
    assert 'llmgw_reconcile_rounds_total{outcome="in-order"} 1.0' in metrics(site).read_text()
    want(site, 4)
    large = reconcile(site, "--max-actions", "2", "--detailed-exitcode")
    assert large.status == 2, f"{large.out}\n{large.err}"
    assert "withheld: it takes 2 actions, and of 2 in an hour 1 is left" in large.out
    text = metrics(site).read_text()
    assert 'llmgw_reconcile_withheld{reason="budget"} 1.0' in text
    assert 'llmgw_reconcile_pending_actions{kind="create"} 2.0' in text
    assert "llmgw_reconcile_budget_left 1.0" in text
    assert site.units() == mended


def test_rounds_go_on_until_sigterm_and_keep_every_other_loop_away(site: Site, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "llmgw", "reconcile", "-i", str(site.folder), "--interval", "2s", "--json"]
    heard = tmp_path / "heard"
    with heard.open("w") as out:
        loop = site.lab.popen(command, cwd=PROJECT, stdout=out, stderr=subprocess.STDOUT)

    def events() -> list[str]:
        return [json.loads(line)["event"] for line in heard.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def rounds() -> int:
        path = site.folder / "facts" / ".reconcile.json"
        return sum(json.loads(path.read_text())["rounds"].values()) if path.exists() else 0

    try:
        wait_for(lambda: rounds() > 0, 120, "the first round")
        second = reconcile(site)
        assert second.status == 1
        assert f"process {loop.pid} " in second.err
        (site.folder / "catalog.yaml").write_text(CATALOG)
        wait_for(lambda: "problem" in events(), 120, "the broken catalog to be told of")
        stopped = stop_one(site)
        want(site, 2)
        wait_for(lambda: "mended" in events(), 120, "the stopped unit to be mended")
        assert events().count("problem") == 2, "it came, and it went"
        assert stopped in site.units()
    finally:
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(timeout=60) == 0, heard.read_text()
