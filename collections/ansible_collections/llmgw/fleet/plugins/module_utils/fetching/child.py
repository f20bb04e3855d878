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
import re
import stat
import sys
import threading
from queue import Queue
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple

WORKERS = 4
"""Files at a time. A file that is interrupted may begin anew, and of eight that are begun more is lost than of four."""
PARTIAL = ".llmgw.incomplete"
COMMIT = re.compile("[0-9a-f]{40}")
BLOB = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
"""How a hub names commits and contents. Both become names in the cache, and a hub may be anybody's."""
_ETAG = re.compile("[0-9A-Za-z_-]{1,128}")
"""What the library may take for a blob's name: a mirror may name contents otherwise, but only by one name."""
_CHUNK = 8 * 1024 * 1024
_RIGHTS = 0o022
_MOST_CAUSES = 10


class OddAnswer(Exception):  # noqa: N818 - nothing of ours went wrong
    """A hub answered what no hub answers; the message says what."""


class LinkInTheWay(Exception):  # noqa: N818 - nothing of ours went wrong
    """Something lies where a file would be written, and leads elsewhere; the message says where."""


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
    hub = _library()
    info = hub.HfApi().model_info(request["repository"], revision=request["revision"], files_metadata=True)
    files = [
        {"name": one.rfilename, "size": one.size, "blob": _sha256(one.lfs) or one.blob_id} for one in info.siblings
    ]
    return {"commit": info.sha, "files": files, "library": hub.__version__}


def get_files(request: Dict[str, Any]) -> Dict[str, Any]:
    """Brings these files into the cache; the snapshot's path and commit."""
    hub = _library()
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
    if not BLOB.fullmatch(one["blob"]):
        raise OddAnswer(f"it gives {one['blob'][:80]!r} as the name of a file's content")
    if os.path.exists(blob):
        return
    url = hub.hf_hub_url(request["repository"], one["name"], revision=request["commit"])
    about = hub.get_hf_file_metadata(url)
    by_xet = getattr(about, "xet_file_data", None) is not None and _has("hf_xet")
    if by_xet or about.size != one["size"] or about.etag != one["blob"]:
        return
    own = importlib.import_module("huggingface_hub.utils").build_hf_headers()
    elsewhere = about.location and _host(about.location) != _host(url)
    if elsewhere:
        own.pop("authorization", None)  # a signed address of a store, which is none of the token's business
    os.makedirs(request["blobs"], exist_ok=True)
    with _appending(partial, about.size) as stream:
        has = os.fstat(stream.fileno()).st_size
        downloads.http_get(about.location or url, stream, resume_size=has, headers=own, expected_size=about.size)
    if has and _digest(partial) != one["blob"]:
        os.unlink(partial)
        raise OSError(f"{one['name']}: what an earlier run left and what came now do not belong together")
    os.replace(partial, blob)


def _appending(path: str, most: int) -> BinaryIO:
    """A file that is gone on with, anew when it has more bytes than `most`. Raises LinkInTheWay, OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError:
        if os.path.islink(path):
            raise LinkInTheWay(path) from None
        raise
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(handle)
        raise LinkInTheWay(path)
    if about.st_size > most:
        os.ftruncate(handle, 0)
    return os.fdopen(handle, "ab")


def _library() -> Any:
    """The library, which from now on refuses commits and names of blobs that would lead out of the cache.

    It joins both to paths as the hub gives them: the commit of a listing, and what the headers of a file say.
    """
    hub = importlib.import_module("huggingface_hub")
    downloads = importlib.import_module("huggingface_hub.file_download")
    if not hasattr(downloads, "llmgw_is_guarded"):
        downloads.llmgw_is_guarded = True  # type: ignore[attr-defined]
        _guard(downloads, "get_hf_file_metadata", lambda about: (about.etag, about.commit_hash))
        if hasattr(downloads, "_get_metadata_or_catch_error"):
            # Newer ones take the name from a list of files that they keep, instead of the headers.
            _guard(downloads, "_get_metadata_or_catch_error", lambda about: (about[1], about[2]))
        _guard(hub.HfApi, "model_info", lambda about: (None, about.sha))
    return hub


def _guard(where: Any, name: str, names: Callable[[Any], Tuple[Any, Any]]) -> None:
    original = getattr(where, name)

    def guarded(*args: Any, **options: Any) -> Any:
        try:
            about = original(*args, **options)
        except Exception as error:
            headers = getattr(getattr(error, "response", None), "headers", None) or {}
            _check(None, headers.get("X-Repo-Commit"))  # the library notes what a commit does not have, too
            raise
        _check(*names(about))
        return about

    setattr(where, name, guarded)


def _check(etag: Any, commit: Any) -> None:
    for what, value, pattern in (("ETag of a file", etag, _ETAG), ("commit", commit, COMMIT)):
        if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
            raise OddAnswer(f"it gives {str(value)[:80]!r} as the {what}")


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
