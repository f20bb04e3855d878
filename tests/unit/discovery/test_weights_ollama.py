# SPDX-License-Identifier: Apache-2.0
"""Models in a store of Ollama (D12)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.discovery.weights import read_weights
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host
from tests.support.model_files import gguf, write

FILE = gguf()
DIGEST = "ab" * 32
MANIFEST = {
    "schemaVersion": 2,
    "layers": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "cd" * 32, "size": 5},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{DIGEST}", "size": len(FILE)},
    ],
}


def store(root: Path, *names: str, blob: str = f"sha256-{DIGEST}", manifest: object = MANIFEST) -> Path:
    files = {f"manifests/{name}": json.dumps(manifest).encode() for name in names}
    return write(root / ".ollama" / "models", {**files, f"blobs/{blob}": FILE})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("registry.ollama.ai/library/tiny/latest", "tiny:latest"),
        ("registry.ollama.ai/someone/tiny/8b", "someone/tiny:8b"),
        ("hf.co/org/tiny-GGUF/Q4", "hf.co/org/tiny-GGUF:Q4"),
    ],
)
def test_a_model_has_the_name_that_ollama_gives_it(tmp_path: Path, path: str, name: str) -> None:
    root = store(tmp_path, path)
    ((found,), findings) = read_weights(Host(), [str(tmp_path)], [])
    assert (found.model, found.path, found.layout) == (name, str(root / "blobs" / f"sha256-{DIGEST}"), "ollama")
    assert (found.complete, found.size_bytes, found.format, findings) == (True, len(FILE), "gguf", ())


@pytest.mark.parametrize("blob", [f"sha256-{DIGEST}-partial", "sha256-other"])
def test_a_model_whose_blob_has_not_arrived_is_not_whole(tmp_path: Path, blob: str) -> None:
    store(tmp_path, "registry.ollama.ai/library/tiny/latest", blob=blob)
    ((found,), _findings) = read_weights(Host(), [str(tmp_path)], [])
    assert (found.complete, found.missing, found.size_bytes) == (False, (f"sha256-{DIGEST}",), None)


def test_a_model_whose_blob_is_cut_off_is_not_whole(tmp_path: Path) -> None:
    blob = store(tmp_path, "registry.ollama.ai/library/tiny/latest") / "blobs" / f"sha256-{DIGEST}"
    blob.write_bytes(FILE[:-1])
    ((found,), _findings) = read_weights(Host(), [str(tmp_path)], [])
    assert (found.complete, found.missing_count, found.size_bytes) == (False, 1, len(FILE) - 1)


@pytest.mark.parametrize(
    "manifest", [[], {}, {"layers": 1}, {"layers": [{"mediaType": "x.image.model", "digest": "a:../b"}]}]
)
def test_what_is_no_manifest_is_passed_over(tmp_path: Path, manifest: object) -> None:
    store(tmp_path, "registry.ollama.ai/library/tiny/latest", manifest=manifest)
    assert read_weights(Host(), [str(tmp_path)], []) == ((), ())
