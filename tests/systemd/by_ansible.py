# SPDX-License-Identifier: Apache-2.0
"""Runs a module by Ansible on this machine, where the private manager is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.systemd.node import ROOT, Wrapped

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - {module}: "{{{{ options }}}}"
      register: answer
      ignore_errors: true
    - ansible.builtin.copy:
        content: "{{{{ answer | to_json }}}}"
        dest: "{{{{ answer_file }}}}"
        mode: "0600"
      check_mode: false
      diff: false
"""


def run(wrapped: Wrapped, scratch: Path, module: str, *flags: str, **options: Any) -> dict[str, Any]:
    """What the module answers, failed or not."""
    scratch.mkdir(exist_ok=True)
    play, given, answer = (scratch / name for name in ("play.yml", "options.json", "answer.json"))
    play.write_text(PLAY.format(module=module))
    given.write_text(json.dumps({"options": options, "answer_file": str(answer)}))
    answer.unlink(missing_ok=True)
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_HOME": str(scratch / "ansible"),
        "ANSIBLE_INJECT_INVOCATION": "0",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_REMOTE_TEMP": str(scratch / "remote"),
    }
    interpreter = f"ansible_python_interpreter={sys.executable}"
    argv = [sys.executable, "-m", "ansible", "playbook", str(play), "-e", f"@{given}", "-e", interpreter, *flags]
    done = subprocess.run(
        wrapped.argv([*(f"{key}={value}" for key, value in environment.items()), *argv]),
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.exists(), done.stdout + done.stderr
    said: dict[str, Any] = json.loads(answer.read_text())
    return said
