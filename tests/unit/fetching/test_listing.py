# SPDX-License-Identifier: Apache-2.0
"""What a hub may say of a repository, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.child import OddAnswer
from ansible_collections.llmgw.fleet.plugins.module_utils.fetching.listing import HubFile, Listing

COMMIT = "a" * 40


def listing(commit: Any = COMMIT, **about: Any) -> Listing:
    return Listing.of({"commit": commit, "files": [{"name": "config.json", "size": 2, "blob": "b" * 40, **about}]})


def test_what_a_hub_says_is_taken_as_it_is() -> None:
    assert listing() == Listing(COMMIT, (HubFile("config.json", 2, "b" * 40),))
    assert listing(blob="c" * 64).files[0].blob == "c" * 64
    assert listing(size=None, blob=None).files == (HubFile("config.json", None, None),)


@pytest.mark.parametrize("blob", ["../../etc/conf", "/etc/conf", "", "b" * 41, "B" * 40, "b" * 40 + "\n", 7, ["b"]])
def test_a_content_that_is_named_oddly_counts_as_unnamed(blob: Any) -> None:
    assert listing(blob=blob).files[0].blob is None


@pytest.mark.parametrize("commit", ["main", "../../../x", "", "a" * 39, "a" * 40 + "\n", "a" * 64, None, 5, ["a" * 40]])
def test_a_commit_that_is_none_is_refused(commit: Any) -> None:
    with pytest.raises(OddAnswer, match="as the commit"):
        listing(commit)


@pytest.mark.parametrize(
    "name", ["/etc/x.json", "../x.json", "a/../../x.json", "a//x.json", "", ".", "a/.", "a/", None, 5]
)
def test_a_name_that_leads_out_of_the_repository_is_refused(name: Any) -> None:
    with pytest.raises(OddAnswer, match="no name below the repository"):
        listing(name=name)


@pytest.mark.parametrize("size", ["12", -5, 10**30, 1.5, True, [1]])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(OddAnswer, match=r"as the size of 'config\.json'"):
        listing(size=size)


@pytest.mark.parametrize("files", [None, {}, "x", [None], ["config.json"]])
def test_a_list_that_is_none_is_refused(files: Any) -> None:
    with pytest.raises(OddAnswer, match="lists no files"):
        Listing.of({"commit": COMMIT, "files": files})


def test_a_file_whose_name_has_control_characters_is_left_out_and_counted() -> None:
    said = {"commit": COMMIT, "files": [{"name": name} for name in ("Icon\r", "a\nb.json", "\udc80.json", "café.json")]}
    found = Listing.of(said)
    assert ([one.name for one in found.files], found.left_out) == (["café.json"], 3)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "size", "blob"]), inner),
    max_leaves=12,
)


@given(commit=st.just(COMMIT) | ANYTHING, files=ANYTHING)
def test_whatever_a_hub_says_it_is_a_listing_or_refused(commit: Any, files: Any) -> None:
    try:
        found = Listing.of({"commit": commit, "files": files})
    except OddAnswer:
        return
    assert all(".." not in one.name.split("/") and not one.name.startswith("/") for one in found.files)
