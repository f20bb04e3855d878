# SPDX-License-Identifier: BSD-2-Clause
"""Fills the folder of one version of an engine: a virtual environment, its packages by pip, its programs.

Private to llmgw. Only wheels are installed: nothing is compiled on a node, and no code of a package runs meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ansible_collections.llmgw.fleet.plugins.module_utils import atomic, process

_OLDEST = (3, 8)
_QUESTION_S = 60.0
_TAIL_LINES = 12
_QUESTION = """
import json, os, sys
try:
    import ensurepip, venv
    able = True
except ImportError:
    able = False
print(json.dumps([os.path.realpath(sys.executable), list(sys.version_info[:3]), able]))
"""  # behind links: an environment of python3 would seem whole when that has become another version
_WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES")
_NO_HASH = re.compile(r"Hashes are required|must have their versions pinned")
_WRONG_PYTHON = re.compile(r"Requires-Python|requires a different Python|different python version")
_UNREACHABLE = re.compile(
    r"Retrying|NewConnectionError|MaxRetryError|ConnectTimeout|Connection (?:refused|reset|aborted|broken)|timed out|"
    r"Name or service not known|Temporary failure in name resolution|No route to host|Network is unreachable|"
    r"Cannot connect to proxy|SSLError|CERTIFICATE_VERIFY_FAILED|Max retries exceeded",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"\b40[137] (?:Error|Client Error)|Credentials not correct")
_PASSWORD = re.compile(r"//[^/\s'\"]*@")
_NOT_FOUND = re.compile(r"No matching distribution found|Could not find a version")


class BuildError(Exception):
    """Why a version could not be installed; the message is for the operator."""


class Packages(NamedTuple):
    """What pip is told to install. With `locked`, a requirements file with hashes, that alone says what."""

    package: str
    version: str
    extras: Sequence[str] = ()
    constraints: Sequence[str] = ()
    locked: str = ""
    index_url: str = ""
    extra_index_urls: Sequence[str] = ()
    wheelhouse: str = ""


def environment(folder: str, python: str, timeout_s: float) -> str:
    """Makes the virtual environment and returns the version of its Python. Raises BuildError."""
    executable, version, able = _asked(python)
    text = ".".join(map(str, version))
    if tuple(version) < _OLDEST:
        raise BuildError(f"{executable} is Python {text}, too old for any engine: name another by llmgw_engine_python")
    if not able:
        raise BuildError(f"{executable} cannot make virtual environments: install the package python3-venv")
    made = process.run((executable, "-m", "venv", folder), timeout_s, _clean())
    if made.rc:
        raise BuildError(f"the virtual environment could not be made in {folder}: {_last(made)}")
    return text


def packages(folder: str, wanted: Packages, timeout_s: float) -> None:
    """Installs by pip. Raises BuildError, with the reason and what to do, when that fails or brings another version.

    Downloads go to the folder's own filesystem, not to /tmp, and no cache is kept. Addresses of indexes are told by the
    environment: they may carry a password, which every user of the node could read on a command line.
    """
    argv, files = command(folder, wanted)
    for path, text in files.items():
        atomic.write(path, text.encode("utf-8", "surrogateescape"), 0o644)
    downloads = f"{folder}/downloads"
    os.makedirs(downloads, exist_ok=True)
    variables = {**_clean(), "TMPDIR": downloads}
    if wanted.index_url:
        variables["PIP_INDEX_URL"] = wanted.index_url
    if wanted.extra_index_urls:
        variables["PIP_EXTRA_INDEX_URL"] = " ".join(wanted.extra_index_urls)
    done = process.run(argv, timeout_s, variables)
    shutil.rmtree(downloads, ignore_errors=True)
    if done.rc:
        raise BuildError(_why(done, folder, wanted, timeout_s))
    there = installed(folder, wanted.package)
    if there is None or not _is(there, wanted.version):
        source = "the requirements file" if wanted.locked else "pip"
        raise BuildError(
            f"{source} brought {wanted.package} {there or 'not at all'}, and {wanted.version} is wanted. "
            "llmgw_engine_versions and the requirements must name the same version"
        )


def command(folder: str, wanted: Packages) -> Tuple[List[str], Dict[str, str]]:
    """The command line of pip, and the files that it names, path to text."""
    argv = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    argv += ["--no-cache-dir", "--only-binary=:all:"]
    files = {}
    if wanted.wheelhouse:
        argv += ["--no-index", "--find-links", wanted.wheelhouse]
    if wanted.locked:
        files[f"{folder}/requirements.txt"] = wanted.locked
        return [*argv, "--require-hashes", "--requirement", f"{folder}/requirements.txt"], files
    if wanted.constraints:
        files[f"{folder}/constraints.txt"] = "\n".join(wanted.constraints) + "\n"
        argv += ["--constraint", f"{folder}/constraints.txt"]
    return [*argv, f"{wanted.package}=={wanted.version}", *wanted.extras], files


def programs(folder: str, texts: Dict[str, str]) -> None:
    """Writes programs to the folder's `bin`; one without a first line of its own runs by the environment's Python."""
    os.makedirs(f"{folder}/bin", mode=0o755, exist_ok=True)
    for name, text in sorted(texts.items()):
        whole = text if text.startswith("#!") else f"#!{folder}/bin/python\n{text}"
        atomic.write(f"{folder}/bin/{name}", whole.encode("utf-8", "surrogateescape"), 0o755)


def installed(folder: str, package: str) -> str | None:
    """Version of a package in the folder's virtual environment; None when it is not there."""
    wanted = re.sub(r"[-_.]+", "_", package).lower()
    for library in _names(f"{folder}/lib"):
        for name in _names(f"{folder}/lib/{library}/site-packages"):
            found = re.fullmatch(r"(?P<package>.+)-(?P<version>[^-]+)\.dist-info", name)
            if found and re.sub(r"[-_.]+", "_", found.group("package")).lower() == wanted:
                return found.group("version")
    return None


def _asked(python: str) -> Tuple[str, List[int], bool]:
    """Path and version of a Python, and whether it can make virtual environments."""
    answer = process.run((python, "-c", _QUESTION), _QUESTION_S, _clean())
    try:
        executable, version, able = json.loads(answer.stdout)
    except ValueError:
        reason = _last(answer)
        raise BuildError(
            f"{python} does not run: {reason}. Name a Python of this node by llmgw_engine_python"
        ) from None
    return executable, version, able


def _is(there: str, wanted: str) -> bool:
    """Whether it is that version; a build such as 0.33.0+cu129 is one of 0.33.0."""
    return wanted in (there, there.partition("+")[0])


def _why(done: process.Result, folder: str, wanted: Packages, timeout_s: float) -> str:
    said = f"{done.stdout}\n{done.stderr}"
    what = f"{wanted.package} {wanted.version} could not be installed"
    source = wanted.wheelhouse or "the package index"
    if done.timed_out:
        return f"{what} within {timeout_s:g} s. Raise llmgw_engine_timeout_s, or install from a wheelhouse nearby"
    if done.rc < 0:
        return f"{what}: pip was ended by signal {-done.rc}. The next run begins anew"
    tail = _last(done)
    if _WRONG_HASH.search(said):
        return (
            f"{what}: what {source} holds is not what the requirements file says. Nothing of it was installed. {tail}"
        )
    if _NO_HASH.search(said):
        return f"{what}: every package needs its version and hashes in the requirements file, and one has none. {tail}"
    if _WRONG_PYTHON.search(said):
        python = f"{folder}/bin/python"
        return f"{what}: it does not go with the Python of {python}. Name another by llmgw_engine_python. {tail}"
    # pip then also says that it found nothing.
    if not wanted.wheelhouse and _UNREACHABLE.search(said):
        return (
            f"{what}: {source} does not answer this node, or not always. Look at llmgw_engine_index_url and the proxy, "
            f"or install from a wheelhouse. {tail}"
        )
    if not wanted.wheelhouse and _REFUSED.search(said):
        return f"{what}: {source} refuses this node. Look at the name and password in llmgw_engine_index_url. {tail}"
    if _NOT_FOUND.search(said):
        return f"{what}: {source} has no wheel of it, or of what it needs, for this node's Python and machine. {tail}"
    return f"{what}: {tail}"


def _last(answer: process.Result) -> str:
    """The end of what a command said, on one line, without names and passwords in addresses."""
    said = _PASSWORD.sub("//", f"{answer.stdout}\n{answer.stderr}")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " | ".join(lines[-_TAIL_LINES:]) or f"exit status {answer.rc}"


def _clean() -> Dict[str, Any]:
    """This process's environment without what would lead a Python astray."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
    return {**{name: value for name, value in os.environ.items() if name not in dropped}, "LC_ALL": "C"}


def _names(directory: str) -> List[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
