# SPDX-License-Identifier: Apache-2.0
"""A repository's list of files and the index of its shards."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import hub_files
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.hub_files import ShardIndex, TreeFile


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_large_file_is_known_by_its_own_size_and_hash_not_by_those_of_its_pointer() -> None:
    files = {
        "config.json": {"size": 519, "blob_id": "ab"},
        "model.safetensors": {"size": 135, "blob_id": "cd", "lfs_sha256": "ef", "lfs_size": 1234, "xet_hash": "00"},
    }
    found = hub_files.read_tree(as_json({"format_version": 1, "files": files}))
    assert found == {"config.json": TreeFile(519, "ab"), "model.safetensors": TreeFile(1234, "ef")}


def test_an_index_names_each_shard_once() -> None:
    document = {
        "metadata": {"total_size": 7},
        "weight_map": {"a": "2.safetensors", "b": "1.safetensors", "c": "1.safetensors"},
    }
    assert hub_files.read_index(as_json(document)) == ShardIndex(("1.safetensors", "2.safetensors"), 7)


@pytest.mark.parametrize(("total", "expected"), [(1e10, 10**10), (1.5, None), ("7", None), (True, None), (-1, None)])
def test_a_total_that_is_no_number_of_bytes_is_unknown(total: object, expected: int | None) -> None:
    document = {"metadata": {"total_size": total}, "weight_map": {"a": "x"}}
    assert hub_files.read_index(as_json(document)).total_size == expected


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"weight_map": {}}', b'{"weight_map": {"a": 1}}', b"[" * 10**5]
)
def test_what_is_no_index_is_unreadable(content: bytes) -> None:
    with pytest.raises(Unreadable):
        hub_files.read_index(content)


def test_an_index_of_more_files_than_any_model_has_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="names 20001 files"):
        hub_files.read_index(as_json({"weight_map": {str(number): str(number) for number in range(20_001)}}))


@given(
    st.binary(),
    st.recursive(
        st.none() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ),
)
def test_no_content_raises_anything_else(content: bytes, value: object) -> None:
    tried = [content, as_json(value), as_json({"files": value, "weight_map": value}), as_json({"files": {"a": value}})]
    for one in tried:
        for reader in (hub_files.read_tree, hub_files.read_index):
            with contextlib.suppress(Unreadable):
                reader(one)
