# SPDX-License-Identifier: Apache-2.0
"""Where the engines of system units write: folders below /var/cache/llmgw that systemd makes for their user.

All else is read-only for them. Engines of one kind share compiled kernels; those that load weights by name share the
downloads. What a profile's own variables name instead is writable too.
"""

from __future__ import annotations

from itertools import pairwise

from llmgw.units import quoting
from llmgw.units.member_unit import MemberUnit

ROOT = "/var/cache/llmgw"
HUGGING_FACE = f"{ROOT}/huggingface"
_BY_HUB = frozenset({"vllm", "sglang"})
_BELOW_KIND = {"HOME": "", "XDG_CACHE_HOME": ""}
_OF_CARDS = {"CUDA_CACHE_PATH": "/cuda"}
_OF_TORCH = {
    "TORCHINDUCTOR_CACHE_DIR": "/torchinductor",
    "TRITON_CACHE_DIR": "/triton",
    "VLLM_CACHE_ROOT": "/vllm",
}
_WRITTEN = frozenset(
    {
        *_BELOW_KIND,
        *_OF_CARDS,
        *_OF_TORCH,
        "CUDA_MPS_PIPE_DIRECTORY",
        "FLASHINFER_WORKSPACE_BASE",
        "HF_HOME",
        "HF_HUB_CACHE",
        "TMPDIR",
    }
)
"""Variables that name a folder which somebody writes to."""
_DOWNLOADS = "--download-dir"


def caches(unit: MemberUnit) -> list[str]:
    """Lines of [Service] that make the folders, or make folders of the operator's writable."""
    kind = unit.profile.engine
    folders = [f"llmgw/{kind}", *(["llmgw/huggingface"] if kind in _BY_HUB else [])]
    own = [f"ReadWritePaths={quoting.writable(path)}" for path in _own_folders(unit)]
    return [f"CacheDirectory={' '.join(folders)}", "CacheDirectoryMode=0750", f"WorkingDirectory={ROOT}/{kind}", *own]


def cache_variables(unit: MemberUnit) -> dict[str, str]:
    """The variables that lead engines there, unless the profile leads them elsewhere."""
    kind = unit.profile.engine
    below = _BELOW_KIND | (_OF_CARDS if unit.member.devices else {}) | (_OF_TORCH if kind in _BY_HUB else {})
    found = {name: f"{ROOT}/{kind}{path}" for name, path in below.items()}
    if kind in _BY_HUB:
        found["HF_HOME"] = HUGGING_FACE
    return dict(sorted(found.items()))


def _own_folders(unit: MemberUnit) -> list[str]:
    """Absolute folders that the engine was told to write to. A hub cache that it only reads is none."""
    env, argv = unit.launch.env, unit.launch.argv
    reads_only = {"HF_HUB_CACHE"} if env.get("HF_HUB_OFFLINE") == "1" else set()
    found = {env[name] for name in _WRITTEN - reads_only if name in env}
    found |= {value for option, value in pairwise(argv) if option == _DOWNLOADS}
    found |= {word.partition("=")[2] for word in argv if word.startswith(f"{_DOWNLOADS}=")}
    return sorted(path for path in found if path.startswith("/"))
