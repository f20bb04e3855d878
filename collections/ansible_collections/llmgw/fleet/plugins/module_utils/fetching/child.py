# SPDX-License-Identifier: BSD-2-Clause
"""The program that talks to a hub, with huggingface_hub, in the interpreter that has it. Private to llmgw.

It imports nothing of ours: its text is sent to that interpreter. A line of JSON comes in for each thing to do, a line
goes out for each that is done; it ends when its input ends, so that it never outlives whoever started it. Only
`snapshot_download`, `model_info` and what the library documents for single files is used, which is alike from 0.24 on.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import json
import os
import sys
import threading
from queue import Queue
from typing import Any, Dict, Iterator, List, Optional

WORKERS = 4
"""Files at a time. A file that is interrupted may begin anew, and of eight that are begun more is lost than of four."""
PARTIAL = ".llmgw.incomplete"
_CHUNK = 8 * 1024 * 1024
_RIGHTS = 0o022
_MOST_CAUSES = 10


def main() -> None:
    """Does what its input says, until that ends."""
    os.umask(_RIGHTS)  # engines read as another user
    said: Queue[Optional[str]] = Queue()
    threading.Thread(target=_listen, args=(said,), daemon=True).start()
    while True:
        line = said.get()
        if line is None:
            return
        request = json.loads(line)
        try:
            answer = list_files(request) if request["do"] == "list" else get_files(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side has the words for it
            answer = {"error": kinds(error), "message": str(error).strip()}
        _tell(answer)


def list_files(request: Dict[str, Any]) -> Dict[str, Any]:
    """The repository's commit, and its files with size and the name of their blob, as far as the hub tells."""
    hub = importlib.import_module("huggingface_hub")
    info = hub.HfApi().model_info(request["repository"], revision=request["revision"], files_metadata=True)
    files = [
        {"name": one.rfilename, "size": one.size, "blob": _sha256(one.lfs) or one.blob_id} for one in info.siblings
    ]
    return {"commit": info.sha, "files": files, "library": hub.__version__}


def get_files(request: Dict[str, Any]) -> Dict[str, Any]:
    """Brings these files into the cache; the snapshot's path and commit."""
    hub = importlib.import_module("huggingface_hub")
    for one in request.get("large") or ():
        _get_large(hub, request, one)
    path = hub.snapshot_download(
        request["repository"],
        revision=request["revision"],
        cache_dir=request["cache"],
        allow_patterns=[glob.escape(name) for name in request["names"]],
        max_workers=WORKERS,
    )
    return {"path": path, "commit": os.path.basename(path)}


def _get_large(hub: Any, request: Dict[str, Any], one: Dict[str, Any]) -> None:
    """Brings one file to where the library looks for it, going on where an earlier run ended.

    The library itself begins a file anew in each process. What it fetches by Xet is left to it: that keeps what it has.
    """
    downloads = importlib.import_module("huggingface_hub.file_download")
    blob = os.path.join(request["blobs"], one["blob"])
    partial = blob + PARTIAL
    if os.path.exists(blob):
        return
    url = hub.hf_hub_url(request["repository"], one["name"], revision=request["commit"])
    about = hub.get_hf_file_metadata(url)
    by_xet = getattr(about, "xet_file_data", None) is not None and _has("hf_xet")
    if by_xet or about.size != one["size"] or about.etag != one["blob"]:
        return
    has = os.path.getsize(partial) if os.path.exists(partial) else 0
    if has > about.size:
        os.unlink(partial)
        has = 0
    own = importlib.import_module("huggingface_hub.utils").build_hf_headers()
    elsewhere = about.location and _host(about.location) != _host(url)
    if elsewhere:
        own.pop("authorization", None)  # a signed address of a store, which is none of the token's business
    os.makedirs(request["blobs"], exist_ok=True)
    with open(partial, "ab") as stream:
        downloads.http_get(about.location or url, stream, resume_size=has, headers=own, expected_size=about.size)
    if has and _digest(partial) != one["blob"]:
        os.unlink(partial)
        raise OSError(f"{one['name']}: what an earlier run left and what came now do not belong together")
    os.replace(partial, blob)


def kinds(error: BaseException) -> List[str]:
    """The names of an error's classes and of those that caused it, the status of an answer among them."""
    return list(_kinds(error))


def _kinds(error: Optional[BaseException]) -> Iterator[str]:
    seen = 0
    while error is not None and seen < _MOST_CAUSES:
        yield from (one.__name__ for one in type(error).__mro__[:-1])
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status is not None:
            yield f"HTTP {status}"
        if isinstance(error, OSError) and error.errno is not None:
            yield f"errno {error.errno}"
        error = error.__cause__ or error.__context__
        seen += 1


def _sha256(lfs: Any) -> Optional[str]:
    if isinstance(lfs, dict):
        return lfs.get("sha256")
    found: Optional[str] = getattr(lfs, "sha256", None)
    return found


def _has(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return not os.environ.get("HF_HUB_DISABLE_XET")


def _host(url: str) -> str:
    return url.split("/")[2] if url.count("/") > 1 else ""


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK), b""):
            digest.update(chunk)
    return digest.hexdigest()


def _listen(said: Queue[Optional[str]]) -> None:
    for line in sys.stdin:
        said.put(line)
    os._exit(0)  # in the middle of whatever is going on: nobody is there any more


def _tell(answer: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
