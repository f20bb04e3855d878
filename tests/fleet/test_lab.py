# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.lab.errors import LabError
from tests.fleet.lab.hosts import Lab, Machine
from tests.fleet.lab.waiting import wait_until

ROOT = Path(__file__).parents[2]
ANSIBLE = str(Path(sys.executable).with_name("ansible"))


@pytest.fixture
def one(_lab_can_run: None) -> Iterator[Lab]:
    with Lab(1) as running:
        yield running


def ping(lab: Lab, inventory: Path, pattern: str = "all") -> subprocess.CompletedProcess[str]:
    command = [ANSIBLE, "-i", str(inventory), pattern, "-m", "ansible.builtin.ping", "--one-line"]
    return lab.run(command, env={"ANSIBLE_NOCOLOR": "1", "ANSIBLE_TIMEOUT": "4"}, timeout=100)


def boot_id(lab: Lab, host: str) -> str:
    return lab.ssh(host, "cat /proc/sys/kernel/random/boot_id", check=True).stdout


def traces(lab_id: str, network: str) -> list[str]:
    """Everything on this machine that still belongs to a lab: mounts, cgroups, processes, files."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    found = [mount for mount in mounts if lab_id in mount]
    for mount in mounts:
        if " - cgroup2 " in mount:
            found += map(str, Path(mount.split()[4]).glob(f"*{lab_id}*"))
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue  # it has ended, and its parent has yet to ask how
            if lab_id in (process / "cgroup").read_text() or (process / "ns/net").readlink().name == network:
                found.append(f"{process}: {(process / 'cmdline').read_text()}")
        except OSError:
            continue  # it ended while it was looked at
    return found + list(map(str, Path(tempfile.gettempdir()).glob(f"*{lab_id}*")))


def network_of(lab: Lab) -> str:
    return Path(f"/proc/{lab.pid}/ns/net").readlink().name


def test_ansible_reaches_every_host_over_ssh(lab: Lab, tmp_path: Path) -> None:
    done = ping(lab, lab.inventory(tmp_path / "hosts.yml"))
    assert done.returncode == 0, done.stdout + done.stderr
    for host in lab.hosts:
        assert f"{host} | SUCCESS" in done.stdout


def test_groups_and_host_variables_arrive_in_ansible(lab: Lab, tmp_path: Path) -> None:
    groups = {"fleet": lab.hosts, "gateway": lab.hosts[:1]}
    inventory = lab.inventory(tmp_path / "hosts.yml", groups=groups, host_vars={"n1": {"llmgw_labels": {"rack": "a"}}})
    message = "msg='{{ llmgw_labels.rack }} {{ group_names | join(\",\") }}'"
    done = lab.run([ANSIBLE, "-i", inventory, "gateway", "-m", "ansible.builtin.debug", "-a", message], check=True)
    assert '"msg": "a fleet,gateway"' in done.stdout


def test_systemd_has_no_failed_unit_on_any_host(lab: Lab) -> None:
    for host in lab.hosts:
        state = lab.ssh(host, "systemctl is-system-running --wait; systemctl --failed --plain --no-legend")
        assert state.stdout == "running\n", f"{host}: {state.stdout}"


def test_hosts_reach_each_other_by_name(lab: Lab) -> None:
    for host in lab.hosts:
        probe = f"exec 3<>/dev/tcp/{lab.hosts[-1]}/22 && head -c4 <&3"
        assert lab.ssh(host, f"bash -c '{probe}'", check=True).stdout == "SSH-"


def test_an_engine_is_installed_and_a_model_is_there_without_a_network(one: Lab) -> None:
    install = "python3 -m venv /opt/v && /opt/v/bin/pip install -q --no-index --find-links /opt/wheels xllamacpp"
    one.ssh("n1", f"{install} && /opt/v/bin/python -c 'import xllamacpp'", check=True)
    model = one.ssh("n1", "head -c4 /srv/models/SmolLM2-135M-Instruct.Q4_1.gguf", check=True)
    assert model.stdout == "GGUF"


def test_a_plain_user_may_linger_and_sudo(one: Lab) -> None:
    command = "loginctl enable-linger && sudo id -u && ls /var/lib/systemd/linger"
    done = one.ssh("n1", command, user="deploy", check=True)
    assert done.stdout.split() == ["0", "deploy"]


def test_a_crashed_host_comes_back_with_its_disk_and_another_boot_id(one: Lab) -> None:
    one.ssh("n1", "echo kept >/root/file", check=True)
    before = boot_id(one, "n1")
    one.crash("n1")
    assert not one.running("n1")
    assert one.ssh("n1", "true").returncode == 255
    one.start("n1")
    assert one.ssh("n1", "cat /root/file", check=True).stdout == "kept\n"
    assert boot_id(one, "n1") != before


@pytest.mark.parametrize("asked_by", ["the lab", "the host"])
def test_a_rebooted_host_comes_back(one: Lab, asked_by: str) -> None:
    before = boot_id(one, "n1")
    if asked_by == "the lab":
        one.reboot("n1")
    else:
        with one.rebooting("n1"):
            one.ssh("n1", "systemctl reboot")
    assert boot_id(one, "n1") != before


@pytest.mark.slow
@pytest.mark.parametrize(("breaking", "repairing"), [(Lab.cut, Lab.heal), (Lab.freeze, Lab.thaw)])
def test_a_host_that_is_cut_off_or_frozen_times_out_until_repaired(one: Lab, breaking: Any, repairing: Any) -> None:
    before = boot_id(one, "n1")
    breaking(one, "n1")
    lost = one.ssh("n1", "true", timeout=20)
    assert lost.returncode == 255
    assert "timed out" in lost.stderr
    repairing(one, "n1")
    assert boot_id(one, "n1") == before


@pytest.mark.slow
def test_ansible_gives_up_a_frozen_host_that_it_is_connected_to(one: Lab, tmp_path: Path) -> None:
    inventory = one.inventory(tmp_path / "hosts.yml")
    assert ping(one, inventory).returncode == 0
    one.freeze("n1")
    started = time.monotonic()
    assert "UNREACHABLE" in ping(one, inventory).stdout
    assert time.monotonic() - started < 50


def test_sockets_of_the_test_itself_reach_hosts_while_it_joins_the_network(one: Lab) -> None:
    outside = Path("/proc/thread-self/ns/net").readlink()
    with one.network(), socket.create_connection((one.addresses["n1"], 22), timeout=5) as connection:
        assert Path("/proc/thread-self/ns/net").readlink().name == network_of(one)
        assert connection.recv(4) == b"SSH-"
    assert Path("/proc/thread-self/ns/net").readlink() == outside


def test_each_machine_has_the_files_that_make_it_special(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/one.txt").write_text("1")
    machines = [
        Machine("gpu", {"/usr/bin/nvidia-smi": "#!/bin/sh\necho fake\n", "/srv/data": tmp_path / "data"}),
        Machine("plain"),
    ]
    with Lab(machines) as lab:
        done = lab.ssh("gpu", "nvidia-smi; cat /srv/data/one.txt; stat -c %U /srv/data/one.txt", check=True)
        assert done.stdout.split() == ["fake", "1root"]
        assert lab.ssh("plain", "nvidia-smi").returncode == 127


def test_files_are_put_onto_a_running_host(one: Lab) -> None:
    one.put("n1", {"/opt/wheels/new.txt": "new"})
    assert one.ssh("n1", "cat /opt/wheels/new.txt", check=True).stdout == "new"


def test_a_command_that_takes_too_long_is_killed_with_its_children_and_its_output_is_told(one: Lab) -> None:
    with pytest.raises(LabError, match=r"took longer than 0\.5 s:\nbegun"):
        one.run(["sh", "-c", "echo begun; sleep 600 & wait"], timeout=0.5)
    wait_until(lambda: not (one.cgroup / "cgroup.procs").read_text(), 5, "the command's children to end")


def test_what_the_lab_cannot_do_is_told_with_its_reason(one: Lab) -> None:
    with pytest.raises(LabError, match="n1 is already running"):
        one.start("n1")


def test_two_labs_side_by_side_do_not_see_each_other(tmp_path: Path) -> None:
    with Lab(1) as left, Lab(1) as right:
        for lab in (left, right):
            lab.put("n1", {"/root/lab": lab.id})
            inventory = lab.inventory(tmp_path / f"{lab.id}.yml")
            command = [ANSIBLE, "-i", str(inventory), "n1", "-m", "ansible.builtin.command", "-a", "cat /root/lab"]
            # The second lab's host has the address of the first's, to which a connection is still open.
            assert lab.id in lab.run(command, check=True).stdout
        left.crash("n1")
        assert right.ssh("n1", "true").returncode == 0


def test_nothing_is_left_after_down_not_even_background_connections(tmp_path: Path) -> None:
    with Lab(2) as lab:
        network = network_of(lab)
        assert ping(lab, lab.inventory(tmp_path / "hosts.yml")).returncode == 0
        sleeper = lab.popen(["sleep", "600"])
        found = "\n".join(traces(lab.id, network))
        assert "[mux]" in found
        assert "systemd-nspawn" in found
    assert traces(lab.id, network) == []
    assert sleeper.wait(timeout=5) == -signal.SIGKILL


def test_nothing_is_left_when_the_test_process_is_killed() -> None:
    script = """
import os, time
from tests.fleet.lab.hosts import Lab
with Lab(2) as lab:
    lab.popen(["sleep", "600"])
    print(lab.id, os.readlink(f"/proc/{lab.pid}/ns/net"), flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        lab_id, network = tests.stdout.readline().split()
        assert traces(lab_id, network)
        tests.kill()
    wait_until(lambda: not traces(lab_id, network), 20, "the killed process's lab to be gone")
