# SPDX-License-Identifier: Apache-2.0
"""Why this machine cannot run a lab, so that its tests say so instead of failing halfway."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.fleet.lab.gold import KEYRING

PROGRAMS = {
    "debootstrap": "debootstrap",
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "ssh": "openssh-client",
}


def obstacles() -> list[str]:
    """Sentences, each with what to do; empty where a lab can run."""
    if os.geteuid() != 0:
        return ["a lab of real hosts needs root"]
    found = [
        f"{program} is missing: apt-get install {package}"
        for program, package in PROGRAMS.items()
        if shutil.which(program) is None
    ]
    if not KEYRING.exists():
        found.append(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    # Root in a container is often not allowed to make namespaces, mount or plug in a network.
    attempt = "mount -t tmpfs lab /tmp && ip link add lab0 type bridge"
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-c", attempt]
    done = subprocess.run(namespaces, check=False, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        found.append(f"root may not make namespaces here ({done.stderr.strip()}): a container needs --privileged")
    return found
