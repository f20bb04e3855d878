# SPDX-License-Identifier: Apache-2.0
"""`llmgw init`: writes a first fleet to begin from: an inventory of this machine, a small catalog, an ansible.cfg."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llmgw.cli import exits

app = typer.Typer(add_completion=False, rich_markup_mode=None)

CATALOG = """\
# What is served, how, and under which names. Try a change with:  llmgw catalog check && llmgw plan
# What each key means:  llmgw catalog schema --markdown      A JSON Schema for editors:  llmgw catalog schema
version: 1

models:
  # Weights. llmgw looks for them on the nodes; how they got there is up to you.
  smollm2:
    hf_id: HuggingFaceTB/SmolLM2-135M-Instruct
    # path: SmolLM2-135M-Instruct.Q4_1.gguf   # instead of hf_id: a file or folder, absolute or below llmgw_model_dirs

profiles:
  # Ways to serve a model. The simulator answers like an engine and computes nothing: it needs no weights and no GPU.
  smollm2-sim:
    engine: sim
    model: smollm2
    devices: cpu
  # For a real engine, name the weights by path (above) and take this profile in the service:
  # smollm2-cpu:
  #   engine: llama.cpp
  #   model: smollm2
  #   devices: cpu          # or classes of GPUs, the preferred first: [h200-141g, l40s-45g]
  #   threads: 2
  #   min_memory_gb: 1

services:
  # What clients call: {"model": "chat", ...}
  chat:
    profiles: smollm2-sim   # or several, the preferred first
    replicas: 1
    # spread: node          # spread the replicas evenly over the nodes
"""

INVENTORY = """\
# The machines. Groups: `fleet` runs engines, `gateway` runs the gateway. This first one is the machine you are on.
all:
  vars:
    llmgw_labels: {}
    # llmgw_model_dirs: [/srv/models]   # where nodes look for weights
  children:
    fleet:
      hosts:
        localhost:
          ansible_connection: local
          # The Python that llmgw itself runs on: it is there and works.
          ansible_python_interpreter: "{{ ansible_playbook_python }}"
          llmgw_address: 127.0.0.1
        # n1:
        #   ansible_host: 192.0.2.11
        #   llmgw_labels: {rack: r1}
    gateway:
      hosts:
        localhost:
"""

ANSIBLE_CFG = """\
[defaults]
inventory = inventory/hosts.yml
forks = 50
timeout = 10
interpreter_python = auto_silent
gathering = explicit

[ssh_connection]
pipelining = true
# Keep-alives end a session whose host has stopped answering; without them one such host holds up a run for ever.
ssh_args = -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=2 -o ServerAliveCountMax=2
"""

GITIGNORE = """\
# What llmgw read of the hosts; it reads it again.
/inventory/facts/
# What was applied from here, by whom, and how it ended.
/inventory/history/
# Captures name hosts and addresses.
/captures/
"""

FILES = {
    "ansible.cfg": ANSIBLE_CFG,
    "inventory/hosts.yml": INVENTORY,
    "inventory/catalog.yaml": CATALOG,
    ".gitignore": GITIGNORE,
}


@app.command()
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to write; made when it does not exist.")
    ] = Path(),
) -> int:
    """Write a first fleet. DIR/ansible.cfg, DIR/inventory/hosts.yml, DIR/inventory/catalog.yaml, and a DIR/.gitignore
    for what llmgw stores there; never overwrites.
    """
    from llmgw.errors import LlmgwError

    for name, text in FILES.items():
        path = directory / name
        try:
            print(f"wrote  {path}" if _write(path, text) else f"kept   {path}: it is there already")
        except OSError as error:
            why = f"the file cannot be written: {(error.strerror or type(error).__name__).lower()}"
            raise LlmgwError(
                "init-file", why, where=str(path), fix="Name a directory that you may write to."
            ) from error
    here = "" if directory == Path() else f"cd {directory} && "
    print(f"next:  {here}llmgw facts refresh && llmgw plan")
    return exits.OK


def _write(path: Path, text: str) -> bool:
    """Whether the file was written; a file or link that is there stays as it is. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True
