# SPDX-License-Identifier: Apache-2.0
"""Weights fetched on real hosts: from catalog to a running unit, by the real huggingface_hub, from a hub in the lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from llmgw.apply import history
from tests.fleet.lab.hosts import Lab
from tests.fleet.site import PROJECT, Site, recap, wait_for
from tests.support.hub import Hub, Model, serving, tensors

pytestmark = pytest.mark.timeout(300)
FIRST, SECOND = "n2", "n3"
WHEELS, MODELS = "/srv/hub-wheels", "/srv/fetched"
CONTROLLER, PORT = "10.77.0.1", 8765
LARGE, CHUNK = 96 * 1024 * 1024, 10 * 1024 * 1024
"""Bytes of the weights, enough for a file to be gone on with in its middle, and what the library writes at once."""
WEIGHTS = "model.safetensors"
FILES = {"config.json": b"{}", "tokenizer.json": b'{"a": 1}', "README.md": b"", WEIGHTS: tensors(LARGE)}
CATALOG = """\
version: 1
models:
  tiny: {hf_id: org/tiny, weights: {fetch: missing}}
profiles:
  tiny: {model: tiny, engine: sim, devices: cpu, ready_timeout: 60s, args: [--load-seconds, "0.1"]}
services:
  tiny: {profiles: [tiny], replicas: 2, spread: node}
"""


def hub_wheels() -> Path:
    """The wheels of huggingface_hub for the hosts' Python, downloaded once."""
    defaults = PROJECT / "collections/ansible_collections/llmgw/fleet/roles/weights/defaults/main.yml"
    version = YAML(typ="safe").load(defaults)["llmgw_hub_version"]
    cache = Path(os.environ.get("LLMGW_LAB_DIR") or Path.home() / ".cache/llmgw-lab")
    kept = cache / f"hub-wheels-{version}"
    if not kept.exists():
        new = cache / f"hub-wheels-{version}.{os.getpid()}"
        platforms = ("--platform=manylinux_2_28_x86_64", "--platform=manylinux2014_x86_64")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version=3.11"]
        wanted = f"huggingface_hub=={version}"
        subprocess.run([*pip, *platforms, f"--dest={new}", wanted], check=True, timeout=200)
        new.rename(kept)
    return kept


@pytest.fixture(scope="module")
def hub(lab: Lab) -> Iterator[Hub]:
    hub = Hub({"org/tiny": Model(dict(FILES), token="hf_of_the_lab")})
    with ExitStack() as stack:
        with lab.network():
            stack.enter_context(serving(hub, CONTROLLER, PORT))
        yield hub


@pytest.fixture(scope="module")
def site(lab: Lab, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("weights")
    lab.inventory(folder / "hosts.yml", groups={"fleet": [FIRST, SECOND]})
    (folder / "group_vars").mkdir()
    variables = {
        "llmgw_engine_kinds": ["sim"],
        "llmgw_wheelhouse": WHEELS,
        "llmgw_model_dirs": [MODELS],
        "llmgw_hf_endpoint": hub.address,
        "llmgw_secrets": {"hf-token": "hf_of_the_lab"},
        "llmgw_fetch_margin_bytes": 1000,
        "llmgw_fetch_poll_s": 1,
    }
    (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
    (folder / "catalog.yaml").write_text(CATALOG)
    wheels = {f"{WHEELS}/{wheel.name}": wheel for wheel in hub_wheels().iterdir()}
    for host in (FIRST, SECOND):
        lab.put(host, wheels)
    made = Site(lab, folder)
    made.playbook("prepare")
    yield made
    (folder / "catalog.yaml").write_text("version: 1\nservices: {}\n")
    made.apply()
    for host in (FIRST, SECOND):
        lab.ssh(
            host,
            f"umount -q {MODELS}; rm -rf {WHEELS} {MODELS} /opt/llmgw/weights /var/lib/llmgw/secrets/hf-token",
            check=True,
        )


def _running(site: Site) -> set[str]:
    """The hosts with a replica; what other tests left running there is not asked for."""
    return {name.partition("@")[2] for name in site.units() if name.startswith("tiny.")}


def test_weights_come_before_the_unit_and_whatever_happens_in_between_costs_nothing(site: Site, hub: Hub) -> None:
    lab = site.lab
    assert all(one["changed"] for one in recap(site.playbook("weights")).values())

    # The disk of one host is too small: it says so, and nothing is started anywhere.
    lab.ssh(FIRST, f"mkdir -p {MODELS} && mount -t tmpfs -o size=60m tmpfs {MODELS}", check=True)
    refused = site.apply(status=4)
    assert f"fetch org/tiny to {MODELS} on {FIRST}, {SECOND}, size unknown" in refused.out
    assert f"{MODELS} has " in refused.out
    assert "free and needs 100.7 MB for what is still to fetch" in refused.out
    assert refused.out.count("could not be fetched") == 1
    assert _running(site) == set()
    lab.ssh(FIRST, f"umount {MODELS}", check=True)

    # The controller dies while the weights come: the second host goes on, and the next apply waits for it.
    lab.ssh(SECOND, f"rm -rf {MODELS}/models--org--tiny", check=True)
    hub.hold_at[WEIGHTS] = 2 * CHUNK + 1
    command = [sys.executable, "-m", "llmgw", "apply", "-i", str(site.folder)]
    dying = lab.popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def partial(host: str) -> bool:
        found = lab.ssh(host, f"stat -c %s {MODELS}/models--*/blobs/*.incomplete").stdout.split()
        return any(int(size) >= 2 * CHUNK for size in found)

    wait_for(lambda: partial(FIRST) and partial(SECOND), 60, "both hosts to fetch")
    os.killpg(dying.pid, 9)
    dying.wait()
    begun = history.read(site.folder / "history", time.time()).records[0]
    assert begun.process.pid is not None
    with suppress(ProcessLookupError):  # Ansible would go on alone, and no other apply begins meanwhile
        os.kill(begun.process.pid, 9)

    def cut_off() -> bool:
        return history.read(site.folder / "history", time.time()).records[0].outcome == history.INTERRUPTED

    wait_for(cut_off, 60, "the apply to be over")
    # On the first host it is killed as well, in the middle of a file.
    lab.ssh(FIRST, "pkill -KILL -f [w]eights_fetch", check=True)
    hub.hold_at.clear()
    hub.go_on.set()
    before = len(hub.gets(WEIGHTS))
    after = site.apply()
    assert f"{FIRST}  org/tiny  fetched" in after.out
    assert [asked for asked in hub.gets(WEIGHTS)[before:] if asked] == [f"bytes={2 * CHUNK}-"]
    assert _running(site) == {FIRST, SECOND}
    assert site.actions() == {}
    for host in (FIRST, SECOND):
        readable = f"runuser -u llmgw -- cat {MODELS}/models--org--tiny/snapshots/*/{WEIGHTS} | wc -c"
        assert int(lab.ssh(host, readable, check=True).stdout) == len(FILES[WEIGHTS])
        files = "grep -rlE 'hf_of_the[_]lab' /srv /etc/systemd/system /root/.ansible_async 2>/dev/null"
        leaked = f"{files}; journalctl | grep -c 'hf_of_the[_]lab'"
        assert lab.ssh(host, leaked).stdout.split() == ["0"]
