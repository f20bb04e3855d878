# SPDX-License-Identifier: Apache-2.0
"""Puts nvidia-ml-py into a folder of its own, where discovery finds it: NVML's Python library, one file and no more.

Arguments: the folder, the version, and a folder of wheels, or an empty word to ask an index: the one whose address is
given on standard input, else the one that pip is set up for. The node's Python need not have pip, and that it belongs
to the distribution does not matter: nothing is installed into it. The folder is replaced in one step, and only by a
library that imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import List

INDEX_S = 120


def unpack(wheels: Path, version: str, into: Path) -> None:
    """Unpacks the library's wheel. Raises OSError or ValueError, with what to do, when there is none that is whole."""
    found = sorted(wheels.glob(f"nvidia_ml_py-{version}-*.whl"))
    if not found:
        raise FileNotFoundError(
            f"there is no nvidia_ml_py-{version}-*.whl in {wheels}: download it there with "
            f"`pip download --no-deps nvidia-ml-py=={version}`, or set llmgw_nvml_version to the one that is there"
        )
    try:
        with zipfile.ZipFile(found[0]) as wheel:
            wheel.extractall(into)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{found[0]} is damaged: {error}") from error


def download(version: str, into: Path, folder: Path, index: str) -> None:
    """Fetches the library by pip, the node's own or, where it has none, one in an environment for this alone. Raises
    OSError when that fails.
    """
    pip: List[str] = [sys.executable, "-m", "pip"]
    if _run([*pip, "--version"]).returncode != 0:
        environment = folder / "environment"
        made = _run([sys.executable, "-m", "venv", str(environment)])
        if made.returncode != 0:
            raise OSError(
                "this Python has neither pip nor a way to get it: install the package python3-venv, or put the "
                f"library's wheel into llmgw_wheelhouse ({_said(made)})"
            )
        pip = [str(environment / "bin/python"), "-m", "pip"]
    wanted = [f"--target={into}", "--no-deps", "--only-binary=:all:", f"nvidia-ml-py=={version}"]
    done = _run(
        [*pip, "--disable-pip-version-check", "--no-input", "install", "--quiet", "--retries=1", *wanted], index
    )
    if done.returncode != 0:
        raise OSError(f"pip cannot get nvidia-ml-py {version}: {_said(done)}")


def replace(new: Path, folder: Path) -> None:
    """Puts `new` where `folder` is. Raises OSError."""
    imported = _run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(new)!r}); import pynvml"])
    if imported.returncode != 0:
        raise OSError(f"this Python cannot import it: {_said(imported)}")
    old = new.with_name("old")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)


def _run(command: List[str], index: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - pip and Python
        command,
        check=False,
        env={**os.environ, **({"PIP_INDEX_URL": index} if index else {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=INDEX_S,
    )


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stdout.split())[-400:] or f"status {done.returncode}"


def main() -> None:
    """Installs it, or ends with a sentence and status 1."""
    folder, version, wheels = Path(sys.argv[1]).expanduser(), sys.argv[2], sys.argv[3]
    os.umask(0o022)
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".nvml.", dir=folder.parent))
        try:
            new = scratch / "new"
            new.mkdir()
            if wheels:
                unpack(Path(wheels), version, new)
            else:
                download(version, new, scratch, sys.stdin.read().strip())
            replace(new, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.exit(f"nvidia-ml-py was not installed: {error}")


if __name__ == "__main__":
    main()
