# SPDX-License-Identifier: Apache-2.0
"""Where a secret is, and where it is not: searched for on every host and in everything that llmgw and Ansible write."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.fleet.lab.hosts import Lab
from tests.fleet.site import GATEWAY, Site, build_wheel

pytestmark = pytest.mark.timeout(300)

NODE, OTHER = "n2", "n3"
KEY, TOKEN = "sk-b1cafe-do-not-show", "hf_b2cafeDoNotShow"
STATE = "/var/lib/llmgw"
CATALOG = """\
version: 1
models:
  pretend: {path: /dev/null}
profiles:
  keyed:
    {model: pretend, engine: sim, devices: cpu, node_selector: {has: key}, secrets: {VLLM_API_KEY: engine-key,
    HF_TOKEN: hf-token}}
  plain: {model: pretend, engine: sim, devices: cpu}
services:
  keyed: {profiles: [keyed], drain_timeout: 5s, rollout: {max_surge: 0}}
  plain: {profiles: [plain], replicas: 2, spread: node, drain_timeout: 5s}
gateway: {listen: "0.0.0.0:8080", probe_interval: 0.5s}
"""

# Prints every place on a host that holds one of the values, each on one line. The values come by standard input, so
# that the search does not find itself.
SEARCH = r"""
import base64, os, pathlib, re, subprocess, sys
values = [line.encode() for line in sys.stdin.read().split()]
forms = [form for value in values for form in (value, base64.b64encode(value)[:-2])]
def holds(content):
    return any(form in content for form in forms)
def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("cmdline", "environ"):
        if holds(read(process / name)):
            unit = re.findall(r"[^/]+\.(?:service|scope)", read(process / "cgroup").decode())
            print(name, (unit or ["?"])[-1])
for top in ("/etc", "/var", "/run", "/tmp", "/root", "/home", "/opt", "/srv"):
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if not os.path.ismount(os.path.join(folder, name))]
        for name in files:
            path = pathlib.Path(folder, name)
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 50_000_000 and holds(read(path)):
                print("file", path)
said = subprocess.run(["journalctl", "--no-pager", "--output=export"], stdout=subprocess.PIPE, check=True).stdout
if holds(said):
    print("journal")
"""


@pytest.fixture(scope="module")
def site(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("secrets")
    groups = {"fleet": [NODE, OTHER], "gateway": [GATEWAY]}
    lab.inventory(folder / "hosts.yml", groups=groups, host_vars={NODE: {"llmgw_labels": {"has": "key"}}})
    (folder / "catalog.yaml").write_text(CATALOG)
    (folder / "password").write_text("open")
    (folder / "group_vars" / "all").mkdir(parents=True)
    variables = {
        "llmgw_wheelhouse": "/opt/wheels",
        "llmgw_wheel": str(build_wheel(tmp_path_factory.mktemp("wheel"))),
        "llmgw_engine_kinds": ["sim"],
        "llmgw_gateway_secrets": {"LLMGW_SECRET_ENGINE_KEY": "{{ vault_engine_key }}"},
        "llmgw_secrets": {"engine-key": "{{ vault_engine_key }}", "hf-token": TOKEN, "unused": TOKEN},
        "ansible_ssh_pipelining": True,
    }
    (folder / "group_vars" / "all" / "main.json").write_text(json.dumps(variables))
    (folder / "group_vars" / "all" / "vault.yml").write_text(f"vault_engine_key: {encrypted(folder)}")
    made = Site(lab, folder)
    yield made
    lab.ssh(NODE, "systemctl disable --now llmgw-keyed.0.0.service; rm -f /etc/systemd/system/llmgw-keyed.*")
    for host in (NODE, OTHER):
        lab.ssh(host, f"systemctl daemon-reload && rm -rf {STATE}/secrets", check=True)


def encrypted(folder: Path) -> str:
    """The key as Ansible Vault writes it into a file of variables."""
    command = [str(Path(sys.executable).parent / "ansible-vault"), "encrypt_string", "--stdin-name", "x"]
    done = subprocess.run(
        [*command, "--vault-password-file", str(folder / "password")],
        input=KEY,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.partition(":")[2].strip() + "\n"


def found(lab: Lab, host: str) -> set[str]:
    """Where the values are on a host."""
    unpack = "import base64, sys; exec(base64.b64decode(sys.argv[1]))"
    command = f"python3 -c '{unpack}' {base64.b64encode(SEARCH.encode()).decode()}"
    ssh = lab.ssh(host, f"printf '%s\\n' {KEY[:3]}''{KEY[3:]} {TOKEN[:3]}''{TOKEN[3:]} | {command}", check=True)
    return set(ssh.stdout.splitlines())


def shows(text: str) -> bool:
    """Whether a text holds a value, or so much of one that it was only cut off."""
    return KEY[:12] in text or TOKEN[:12] in text


@dataclass(frozen=True)
class Said:
    """What a whole flow from the Vault to a running engine said and left; `runs`: files of Ansible's runs that held a
    value while they were there.
    """

    outputs: Mapping[str, str]
    captured: Sequence[str]
    runs: Sequence[Path]


@pytest.fixture(scope="module")
def said(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Said:
    captures, runs = tmp_path_factory.mktemp("captures"), tmp_path_factory.mktemp("runs")
    vault = ("--diff", "-vvv", "--vault-password-file", str(site.folder / "password"))
    outputs = {name: site.playbook(name, *vault, timeout=280) for name in ("prepare", "gateway")}
    commands = {
        "apply": ("apply", "--diff"),
        "plan": ("plan", "--json"),
        "diff": ("diff",),
        "capture": ("capture", NODE, "--output", str(captures)),
    }
    with watched(runs) as holding:
        for name, arguments in commands.items():
            done = site.llmgw(*arguments)
            assert done.status == 0, f"{name}: {done.out}\n{done.err}"
            outputs[name] = f"{done.out}\n{done.err}"
    with tarfile.open(captures / f"{NODE}.tar.gz") as archive:
        members = [archive.extractfile(one) for one in archive if one.isfile()]
        captured = [one.read().decode(errors="replace") for one in members if one]
    return Said(outputs, captured, holding)


def walked(folder: Path) -> Iterator[Path]:
    """The files below a folder, for as long as its folders stay."""
    with suppress(FileNotFoundError):
        yield from folder.rglob("*")


@contextmanager
def watched(folder: Path) -> Iterator[list[Path]]:
    """Files below the folder of temporary files that hold a value at any time until the end."""
    holding: list[Path] = []
    seen: set[str] = set()
    end = threading.Event()

    def watch() -> None:
        while not end.wait(0.05):
            # What goes away while it is walked through is no fault: the next look begins anew.
            for path in walked(folder):
                try:
                    text = path.read_text(errors="replace")
                except OSError:
                    continue
                seen.add(path.name)
                if shows(text):
                    holding.append(path)

    watcher = threading.Thread(target=watch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        watcher.start()
        try:
            yield holding
        finally:
            end.set()
            watcher.join()
    assert {"extravars", "stdout"} <= seen, "runs were seen"


def test_nothing_that_llmgw_or_ansible_prints_or_keeps_on_the_controller_shows_a_secret(site: Site, said: Said) -> None:
    assert [name for name, text in said.outputs.items() if shows(text)] == []
    assert "LoadCredential=engine-key" in said.outputs["apply"], "the unit's text was shown"
    assert said.runs == []
    stored = [path for path in site.folder.rglob("*") if path.is_file() and "group_vars" not in path.parts]
    assert any(path.name == f"{NODE}.json" for path in stored)
    assert [path for path in stored if shows(path.read_text(errors="replace"))] == []


def test_no_capture_shows_a_secret(said: Said) -> None:
    assert any("Description=llmgw keyed/0" in text for text in said.captured), "the unit is in the capture"
    assert [text for text in said.captured if shows(text)] == []


@pytest.mark.usefixtures("said")
def test_a_host_has_a_secret_in_its_file_and_in_the_environment_of_what_it_is_given_to_and_nowhere_else(
    site: Site,
) -> None:
    files = {f"file {STATE}/secrets/{name}" for name in ("engine-key", "hf-token", "unused")}
    assert found(site.lab, NODE) == {*files, "environ llmgw-keyed.0.0.service"}
    assert found(site.lab, OTHER) == files
    assert found(site.lab, GATEWAY) == {"file /etc/llmgw/gateway.env", "environ llmgw-gateway.service"}


@pytest.mark.usefixtures("said")
def test_the_engine_refuses_who_has_no_key_and_answers_the_gateway(site: Site) -> None:
    text = site.lab.ssh(NODE, "cat /etc/systemd/system/llmgw-keyed.0.0.service", check=True).stdout
    port = next(line.partition("=")[2] for line in text.splitlines() if line.startswith("Port="))
    base = f"http://{site.lab.addresses[NODE]}:{port}/v1"
    question: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
    with site.lab.network():
        stranger = openai.OpenAI(base_url=base, api_key="a guess", max_retries=0)
        with stranger, pytest.raises(openai.AuthenticationError):
            stranger.chat.completions.create(model="keyed", messages=question)
        with openai.OpenAI(base_url=base, api_key=KEY, max_retries=0) as friend:
            assert friend.chat.completions.create(model="keyed", messages=question).choices
    with site.client() as client:
        for name in ("keyed", "plain"):
            answer = client.chat.completions.create(model=name, messages=question)
            assert answer.choices[0].message.content


@pytest.mark.usefixtures("said")
def test_a_secret_that_a_node_lacks_is_told_with_what_to_do_and_the_engine_is_put_back(site: Site) -> None:
    catalog = site.folder / "catalog.yaml"
    catalog.write_text(CATALOG.replace("HF_TOKEN: hf-token", "HF_TOKEN: not-there"))
    done = site.llmgw("apply")
    catalog.write_text(CATALOG)
    assert done.status == 4, done.out + done.err
    said = done.out + done.err
    assert "a secret that it names is not on the node: name it in llmgw_secrets and run the playbook" in said
    assert "llmgw-keyed.0.0.service: Failed at step CREDENTIALS" in said, said
    assert "llmgw-sim" not in said, "what the engine before said is not shown"
    assert site.lab.ssh(NODE, "systemctl is-active llmgw-keyed.0.0.service").stdout.strip() == "active"
