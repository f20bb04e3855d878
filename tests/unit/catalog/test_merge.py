# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import pytest

from llmgw.catalog.compile import File, compile_catalog
from llmgw.errors import Where
from tests.unit.catalog.catalogs import ON_CPU, catalog, mistakes

CHAT = f"{ON_CPU}services:\n  chat: {{profiles: small, replicas: 2, spread: node, aliases: [a, b]}}\n"
MODELS = "models: {m: {path: m}}\n"
PROFILES = "profiles: {p: {engine: sim, model: m}}\n"
SERVICES = "version: 1\nservices: {chat: {profiles: p}}\ngateway: {listen: 'h:1'}\n"
SETTINGS = "gateway: {max_body_mib: 1}\nfleet: {lost_after: 1m}\n"


def test_the_order_of_files_means_nothing() -> None:
    found = [catalog(*files) for files in itertools.permutations((MODELS, PROFILES, SERVICES, SETTINGS))]
    assert found == found[:1] * len(found)


def test_parts_may_hold_what_the_main_file_leaves_out() -> None:
    (chat,) = catalog("version: 1\n", MODELS, PROFILES, "services: {chat: {profiles: p}}\n").services
    assert chat.name == "chat"


@pytest.mark.parametrize(
    "part", ["", "# later\n", "models:\n", "services:\n", "services: {}\n", "version: 1\n", "gateway:\n  keys:\n"]
)
def test_a_part_without_content_adds_nothing(part: str) -> None:
    assert catalog(CHAT, part) == catalog(CHAT)


def test_keys_at_the_top_that_begin_with_x_are_the_authors_own() -> None:
    assert catalog(f"x-note: [1, 2]\n{CHAT}", "x-note: other\n", overlays=("x-note: null\n",)) == catalog(CHAT)
    (error,) = mistakes(CHAT.replace("replicas: 2", "x-replicas: 2"))
    assert error.code == "catalog-unknown-key"


def test_an_overlay_replaces_what_it_says_again_and_nothing_else() -> None:
    found = catalog(CHAT, overlays=("services: {chat: {replicas: 5, aliases: [c]}}\n",))
    assert found == catalog(CHAT.replace("replicas: 2", "replicas: 5").replace("[a, b]", "[c]"))


def test_an_overlay_takes_away_by_null() -> None:
    assert catalog(CHAT, overlays=("services: {chat: {spread: null}}\n",)) == catalog(
        CHAT.replace("spread: node, ", "")
    )
    assert catalog(CHAT, overlays=("services: {chat: null}\n",)).services == ()


@pytest.mark.parametrize("overlay", ["", "# none\n", "services:\n", "gateway: null\n", "version: 1\n"])
def test_an_overlay_without_content_changes_nothing(overlay: str) -> None:
    assert catalog(CHAT, overlays=(overlay,)) == catalog(CHAT)


def test_an_overlay_may_add_names() -> None:
    found = catalog(CHAT, overlays=("services: {talk: {profiles: small}}\n",))
    assert [service.name for service in found.services] == ["chat", "talk"]


def test_a_later_overlay_lies_over_an_earlier_one() -> None:
    overlays = ("services: {chat: {replicas: 3}}\n", "services: {chat: {replicas: 4}}\n")
    assert catalog(CHAT, overlays=overlays).services[0].replicas == 4
    assert catalog(CHAT, overlays=overlays[::-1]).services[0].replicas == 3


def test_every_value_knows_the_file_it_came_from() -> None:
    files = [File("catalog.yaml", CHAT.encode()), File("part.yaml", b"fleet: {lost_after: 1m}\n")]
    above = [File("prod.yaml", b"services:\n  chat:\n    replicas: 9\n    rollout: {max_unavailable: 2}\n")]
    source = compile_catalog(files, above).source
    assert source.where(("services", "chat", "replicas")) == Where("prod.yaml", 3, 15)
    assert source.where(("services", "chat", "rollout", "max_unavailable")) == Where("prod.yaml", 4, 32)
    assert source.where(("services", "chat", "spread")) == Where("catalog.yaml", 8, 48)
    assert source.where(("services", "chat"), key=True) == Where("catalog.yaml", 8, 3)
    assert source.where(("fleet", "lost_after")) == Where("part.yaml", 1, 21)
