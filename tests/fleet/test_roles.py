# SPDX-License-Identifier: Apache-2.0
"""The roles node and controller on real hosts: what they leave there, what a second run does, what check mode says."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.cli.init import ANSIBLE_CFG
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import GATEWAY, Site, build_wheel, recap, wait_for

pytestmark = pytest.mark.timeout(300)

NODE, PLAIN = "n2", "n3"
VALUE = "a value that nobody may see"
STATE = "/var/lib/llmgw"
WHEELS = "/srv/llmgw-roles"
SYSCTL = "/etc/sysctl.d/90-llmgw.conf"
KERNEL = "/proc/sys/net/ipv4"
HOME = "/home/deploy/my-fleet"
FLEET, KEY = f"{HOME}/inventory", "/home/deploy/key"


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("roles")
    plain = {"ansible_user": "deploy", "llmgw_scope": "user", "llmgw_prefix": "/home/deploy/llmgw"}
    lab.inventory(
        folder / "hosts.yml",
        groups={"fleet": [NODE, PLAIN], "gateway": [GATEWAY], "controller": [GATEWAY]},
        host_vars={PLAIN: plain, NODE: {"llmgw_nvml": True}},
    )
    made = Site(lab, folder)
    made.catalog()
    library = nvml_wheel(folder)
    lab.put(NODE, {f"{WHEELS}/{library.name}": library})
    yield made
    lab.ssh(NODE, f"rm -rf {WHEELS} {STATE}/nvml {STATE}/secrets {SYSCTL}", check=True)


def nvml_wheel(folder: Path) -> Path:
    """A wheel with the name of nvidia-ml-py and nothing in it."""
    path = folder / "nvidia_ml_py-13.615.71-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("pynvml.py", "")
        wheel.writestr("nvidia_ml_py-13.615.71.dist-info/RECORD", "")
    return path


def variables(site: Site, **values: Any) -> None:
    folder = site.folder / "group_vars"
    folder.mkdir(exist_ok=True)
    (folder / "all.json").write_text(json.dumps({"ansible_ssh_pipelining": True, **values}))


def prepare(site: Site, *arguments: str, **values: Any) -> str:
    """What the playbook prepare prints, with two secrets and no engines unless told otherwise."""
    secrets = {"key": VALUE, "other": "the second secret"}
    variables(site, llmgw_engine_kinds=[], llmgw_wheelhouse=WHEELS, **{"llmgw_secrets": secrets, **values})
    return site.playbook("prepare", *arguments)


def changed(output: str) -> dict[str, int]:
    return {host: counters["changed"] for host, counters in recap(output).items()}


@pytest.fixture
def busy_ports(site: Site) -> Iterator[None]:
    """The node may change its own network's settings, gives nearly all ports to outgoing connections, and keeps one."""
    site.lab.ssh(NODE, f"rm -rf {STATE}/secrets {STATE}/nvml", check=True)
    proc = "/run/proc"
    before = site.lab.ssh(NODE, f"cat {KERNEL}/ip_local_port_range", check=True).stdout.strip()
    opened = f"mount -t proc proc {proc} && mount --bind {proc}/sys/net/ipv4 {KERNEL} && umount -l {proc}"
    settings = "sysctl -qw net.ipv4.ip_local_port_range='{}' net.ipv4.ip_local_reserved_ports='{}'"
    site.lab.ssh(NODE, f"mkdir {proc} && {opened} && {settings.format('10000 60999', 20080)}", check=True)
    yield
    site.lab.ssh(NODE, f"{settings.format(before, '')} && umount {KERNEL} && rmdir {proc}", check=True)


@pytest.mark.usefixtures("busy_ports")
def test_a_node_is_prepared_once_and_check_mode_tells_the_truth_before_and_after(site: Site) -> None:
    promised = changed(prepare(site, "--check", "--diff", "-vvv"))
    site.lab.ssh(NODE, f"test ! -e {STATE}/secrets/key && test ! -e {STATE}/nvml", check=True)
    output = prepare(site, "--diff", "-vvv")
    assert VALUE not in output
    assert f"{STATE}/secrets/key holds another value" in output
    # What lies in folders that check mode has not made, it promises too.
    assert promised == changed(output)
    assert set(changed(prepare(site, "--check")).values()) == {0}
    assert set(changed(prepare(site)).values()) == {0}
    found = site.lab.ssh(NODE, f"stat -c '%n %a %U' {STATE}/secrets {STATE}/secrets/*", check=True)
    assert found.stdout.splitlines() == [
        f"{STATE}/secrets 700 root",
        f"{STATE}/secrets/key 600 root",
        f"{STATE}/secrets/other 600 root",
    ]
    own = "/home/deploy/.local/state/llmgw/secrets"
    assert site.lab.ssh(PLAIN, f"stat -c '%a %U' {own}", check=True).stdout.split() == ["700", "deploy"]
    for host, folder in ((NODE, f"{STATE}/secrets"), (PLAIN, own)):
        assert site.lab.ssh(host, f"cat {folder}/key", check=True).stdout == VALUE
    reserved = site.lab.ssh(NODE, f"cat {KERNEL}/ip_local_reserved_ports; tail -n 1 {SYSCTL}", check=True).stdout
    ports = "18000-18999,20080"
    assert reserved.splitlines() == [ports, f"net.ipv4.ip_local_reserved_ports = {ports}"]


def test_secrets_go_with_their_names_and_a_container_tells_which_ports_it_cannot_reserve(site: Site) -> None:
    site.lab.ssh(NODE, f"mkdir -p {STATE}/secrets && echo {VALUE} > {STATE}/secrets/other", check=True)
    output = prepare(
        site, "--limit", NODE, "--diff", "-vvv", llmgw_secrets={"key": "a new one"}, llmgw_port_range="40000-40009"
    )
    assert f"{STATE}/secrets/other holds a value" in output
    assert "a new one" not in output
    assert site.lab.ssh(NODE, f"cat {STATE}/secrets/*", check=True).stdout == "a new one"
    assert f"{KERNEL}/ip_local_reserved_ports cannot be written here, so the ports 40000-40009 are not" in output
    journal = site.lab.ssh(NODE, "journalctl --no-pager", check=True).stdout
    assert VALUE not in journal
    assert "a new one" not in journal


def test_secrets_stay_where_the_variable_is_not_there_and_go_where_it_is_empty(site: Site) -> None:
    site.lab.ssh(NODE, f"mkdir -p {STATE}/secrets && echo {VALUE} > {STATE}/secrets/key", check=True)
    before = site.lab.ssh(NODE, f"stat -c '%n %a %y' {STATE}/secrets {STATE}/secrets/*", check=True).stdout
    variables(site, llmgw_engine_kinds=[], llmgw_wheelhouse=WHEELS, llmgw_secret={"key": "of a misspelled name"})
    site.playbook("prepare", "--limit", NODE)
    assert site.lab.ssh(NODE, f"stat -c '%n %a %y' {STATE}/secrets {STATE}/secrets/*", check=True).stdout == before
    prepare(site, "--limit", NODE, llmgw_secrets={})
    assert site.lab.ssh(NODE, f"ls {STATE}/secrets", check=True).stdout == ""


@pytest.fixture
def controller(site: Site, tmp_path: Path) -> Iterator[Site]:
    """The gateway's host with llmgw on it, a fleet directory of the user deploy, and that user's way into two nodes."""
    variables(
        site,
        llmgw_wheelhouse="/opt/wheels",
        llmgw_wheel=str(build_wheel(tmp_path)),
        llmgw_gateway_listen="0.0.0.0:8080",
    )
    site.playbook("gateway", timeout=200)
    hosts = (site.folder / "hosts.yml").read_text().replace(str(site.lab.key), KEY)
    hosts = hosts.replace(str(site.lab.key.with_name("cp")), "/home/deploy/.ansible/cp")
    catalog = (site.folder / "catalog.yaml").read_text()
    files = {f"{FLEET}/hosts.yml": hosts, f"{FLEET}/catalog.yaml": catalog, f"{HOME}/ansible.cfg": ANSIBLE_CFG}
    site.lab.put(GATEWAY, {**files, KEY: site.lab.key})
    site.lab.ssh(GATEWAY, f"chown -R deploy: {HOME} {KEY} && chmod 600 {KEY}", check=True)
    yield site
    site.lab.ssh(GATEWAY, "systemctl disable --now llmgw-facts.timer llmgw-facts-all.timer llmgw-reconcile.timer")
    units = "/etc/systemd/system/llmgw-facts* /etc/systemd/system/llmgw-reconcile*"
    site.lab.ssh(GATEWAY, "systemctl stop 'llmgw-facts*' 'llmgw-reconcile*'")
    site.lab.ssh(GATEWAY, f"rm -rf {HOME} {KEY} {units} && systemctl daemon-reload", check=True)
    site.lab.ssh(GATEWAY, "systemctl reset-failed", check=True)


def test_timers_read_the_fleet_again_and_again_and_mend_it_only_where_that_is_asked_for(controller: Site) -> None:
    ssh = controller.lab.ssh

    def run(*arguments: str, interval_s: int, **values: Any) -> int:
        command = "/opt/llmgw/gateway/bin/llmgw"
        fixed = {"llmgw_controller_fleet": FLEET, "llmgw_controller_command": command}
        variables(controller, **fixed, llmgw_refresh_interval_s=interval_s, **values)
        return changed(controller.playbook("controller", *arguments))[GATEWAY]

    def collected() -> list[str]:
        read = f"grep -ho '\"collected_at\": [0-9.]*' {FLEET}/facts/n[23].json || true"
        return ssh(GATEWAY, read, check=True).stdout.split()[1::2]

    def timers() -> set[str]:
        listed = ssh(GATEWAY, "systemctl list-timers --all --no-legend 'llmgw-*'", check=True).stdout
        return {word for word in listed.split() if word.endswith(".timer")}

    reading = {"llmgw-facts.timer", "llmgw-facts-all.timer"}
    assert run(interval_s=2) > 0
    assert timers() == reading
    environment = ssh(GATEWAY, "systemctl show -P Environment llmgw-facts.service", check=True).stdout.split()
    assert f"ANSIBLE_CONFIG={HOME}/ansible.cfg" in environment
    wait_for(lambda: len(collected()) == 2, 90, "the first facts of two nodes")
    first = collected()
    wait_for(lambda: min(collected()) > max(first), 90, "newer facts of both")
    exposure = ssh(GATEWAY, "systemd-analyze security --no-pager llmgw-facts.service", check=True).stdout.splitlines()[
        -1
    ]
    assert float(exposure.split(": ")[1].split()[0]) <= 4.0, exposure
    ssh(GATEWAY, f"install -d -o deploy {HOME}/metrics", check=True)
    written = f"{HOME}/metrics/llmgw.prom"
    asked: dict[str, Any] = {
        "interval_s": 3600,
        "llmgw_reconcile": True,
        "llmgw_reconcile_interval_s": 3600,
        "llmgw_reconcile_max_actions": 7,
        "llmgw_reconcile_metrics_file": written,
    }
    assert run(**asked) > 0
    assert run("--check", **asked) == 0
    assert timers() == {*reading, "llmgw-reconcile.timer"}
    said = ssh(GATEWAY, "systemctl start llmgw-reconcile.service; journalctl -u llmgw-reconcile", timeout=180).stdout
    assert ssh(GATEWAY, "systemctl show -P Result llmgw-reconcile.service").stdout == "success\n", said[-3000:]
    told = ssh(GATEWAY, f"cat {written}", check=True).stdout
    assert 'llmgw_reconcile_rounds_total{outcome="error"} 0.0' in told
    assert "llmgw_reconcile_budget_left 7.0" in told, "routes alone take no action"
    assert run(interval_s=3600) > 0
    assert timers() == reading
    ssh(GATEWAY, "! systemctl cat llmgw-reconcile.service", check=True)
