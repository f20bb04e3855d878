# SPDX-License-Identifier: Apache-2.0
"""Real vLLM on processors, from an empty host to an answer and back: installed by the role, discovered, planned,
started, asked through the gateway, drained with a stream open, stopped.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.engines.flow import tiny_model
from tests.engines.wheelhouse import VLLM, vllm_wheels
from tests.fleet.lab.hosts import Lab
from tests.fleet.lab.obstacles import obstacles
from tests.fleet.site import GATEWAY, Site, build_wheel, recap, wait_for

pytestmark = pytest.mark.timeout(1800)
WHEELS = "/srv/engine-wheels"
UNIT = "llmgw-chat.0.0.service"
CATALOG = """\
version: 1
models:
  tiny: {{path: tiny}}
profiles:
  tiny-cpu:
    engine: vllm
    model: tiny
    devices: cpu
    min_memory_gb: 4
    max_model_len: 32768
    memory_utilization: 0.1
    args: [--enforce-eager]
services:
  chat: {{profiles: tiny-cpu, replicas: {replicas}, drain_timeout: 10m}}
gateway: {{listen: "0.0.0.0:8080", probe_interval: 0.5s}}
"""
LONG = 20_000
"""Tokens of the stream that is open while its replica goes: half a minute of the ten that the service gives it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = "; ".join(obstacles())
    if found:
        pytest.skip(found)
    wheels = vllm_wheels()
    folder = tmp_path_factory.mktemp("fleet")
    with Lab(1) as lab:
        for wheel in sorted(wheels.iterdir()):  # one by one: each goes through memory
            lab.put(GATEWAY, {f"{WHEELS}/{wheel.name}": wheel})
        # What a node has from its distribution (libnuma1), and a lab host has no network to fetch.
        (numa,) = Path("/usr/lib").glob("*/libnuma.so.1")
        lab.put(GATEWAY, {str(numa): numa})
        lab.inventory(folder / "hosts.yml", groups={"fleet": lab.hosts, "gateway": [GATEWAY]})
        variables = {
            "llmgw_engine_kinds": ["vllm"],
            "llmgw_engine_versions": {"vllm": VLLM},
            "llmgw_wheelhouse": WHEELS,
            "llmgw_model_dirs": ["/srv/models"],
            "llmgw_gateway_listen": "0.0.0.0:8080",
            "llmgw_wheel": str(build_wheel(tmp_path_factory.mktemp("wheel"))),
        }
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "all.json").write_text(json.dumps(variables))
        yield Site(lab, folder)


def report(text: str) -> None:
    """A line for whoever reads what the run measured; shown with -s."""
    print(f"\n  {text}", end="", flush=True)  # noqa: T201


def catalog(site: Site, replicas: int) -> None:
    (site.folder / "catalog.yaml").write_text(CATALOG.format(replicas=replicas))


def memory(site: Site) -> str:
    """What the unit's processes hold, each by name."""
    group = f"/sys/fs/cgroup/system.slice/{UNIT}"
    each = f"for p in $(cat {group}/cgroup.procs); do grep -hE '^(Name|VmRSS)' /proc/$p/status; done"
    words = site.lab.ssh(GATEWAY, each, check=True).stdout.split()
    return " ".join(word for word in words if word not in {"Name:", "VmRSS:"})


def test_vllm_serves_from_an_empty_host_to_an_answer_and_drains_with_a_stream_open(site: Site) -> None:
    catalog(site, 1)
    began = time.monotonic()
    site.playbook("prepare", timeout=900)
    report(f"vLLM installed in {time.monotonic() - began:.0f} s")
    assert recap(site.playbook("prepare"))[GATEWAY]["changed"] == 0
    site.playbook("gateway", "-e", "llmgw_wheelhouse=/opt/wheels", timeout=300)
    site.lab.put(GATEWAY, {"/srv/tiny_model.py": Path(tiny_model.__file__)})
    make = "/opt/llmgw/engines/vllm/current/bin/python /srv/tiny_model.py /srv/models/tiny"
    site.lab.ssh(GATEWAY, f"{make} && chmod -R a+rX /srv/models", check=True)

    site.llmgw("facts", "refresh")
    facts = site.llmgw("facts", "show", "--json").document["nodes"][GATEWAY]
    (engine,) = facts["engines"]
    assert engine["command"] == [f"/opt/llmgw/engines/vllm/{VLLM}/bin/vllm"]
    assert engine["version"].startswith(VLLM)

    began = time.monotonic()
    applied = site.llmgw("apply", timeout=900)
    assert applied.status == 0, applied.out + applied.err
    report(f"apply until ready {time.monotonic() - began:.0f} s")
    report(memory(site))
    assert site.actions() == {}

    with site.client() as client:
        assert [one.id for one in client.models.list()] == ["chat"]
        assert streamed(client, 20) == 20

        received: list[tuple[int, float]] = []
        stream = threading.Thread(target=lambda: received.append((streamed(client, LONG), time.monotonic())))
        stream.start()
        catalog(site, 0)
        began = time.monotonic()
        ending = threading.Thread(target=lambda: site.llmgw("apply", timeout=600))
        ending.start()
        wait_for(lambda: "draining" in site.endpoints().values(), 120, "the gateway to drain the replica")
        assert not received, "the stream was over before its replica was drained"
        ending.join(400)
        stream.join(60)
    ((came, when),) = received
    assert came == LONG
    report(f"{came} tokens, begun before their replica was drained, ended {when - began:.0f} s after the apply began")
    report(f"the apply ended {time.monotonic() - when:.0f} s later")
    assert site.units() == {}
    journal = site.lab.ssh(GATEWAY, f"journalctl -o cat -u {UNIT}", check=True).stdout
    assert "mode=drain" in journal
    if "LLMGW_ENGINES_LOG" in os.environ:
        Path(os.environ["LLMGW_ENGINES_LOG"]).write_text(journal)


def streamed(client: openai.OpenAI, tokens: int) -> int:
    """Streams an answer of that many tokens to its end and returns how many came."""
    chunks = client.chat.completions.create(
        model="chat",
        messages=[{"role": "user", "content": "How many lamps are lit?"}],
        max_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    reason, usage = None, None
    for chunk in chunks:
        reason = chunk.choices[0].finish_reason or reason if chunk.choices else reason
        usage = chunk.usage or usage
    assert reason == "length"
    assert usage is not None
    return usage.completion_tokens
