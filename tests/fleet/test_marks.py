# SPDX-License-Identifier: Apache-2.0
"""Marks on real hosts: made and taken away by command, there for every controller, told where they cannot be made."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from tests.fleet.lab.hosts import Lab
from tests.fleet.site import Outcome, Site

STATE = "/var/lib/llmgw-marks"
NODES = ("n2", "n3")
CARD = "GPU-6a1b2c3d-0000-1111-2222-333344445555"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def sites(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Site]]:
    """Two fleet directories of the same nodes, as two controllers have them."""
    made = []
    for name in ("first", "second"):
        folder = tmp_path_factory.mktemp(name)
        lab.inventory(
            folder / "hosts.yml",
            groups={"fleet": NODES},
            host_vars={node: {"llmgw_state_dir": STATE} for node in NODES},
        )
        made.append(Site(lab, folder))
    try:
        yield made[0], made[1]
    finally:
        for node in NODES:
            lab.ssh(node, f"umount -q {STATE}; rm -rf {STATE}")


def states(site: Site) -> dict[str, str]:
    done = site.llmgw("nodes")
    assert done.status == 0, done.err
    return {words[0]: words[1] for words in map(str.split, done.out.splitlines()) if words and words[0] in NODES}


def ended(done: Outcome, status: int = 0) -> Outcome:
    assert done.status == status, f"{done.out}\n{done.err}"
    return done


def test_a_node_marked_by_one_controller_is_out_for_the_other_until_either_lets_it_in(
    lab: Lab, sites: tuple[Site, Site]
) -> None:
    first, second = sites
    said = ended(first.llmgw("nodes", "cordon", "n2", "n3", "--reason", "rack work"))
    assert [line for line in said.out.splitlines() if line.startswith("n")] == ["n2  cordoned now", "n3  cordoned now"]
    assert states(first) == {"n2": "ok,cordoned", "n3": "ok,cordoned"}

    kept = ended(second.llmgw("nodes", "cordon", "n2"))
    assert "n2  was cordoned already by " in kept.out
    assert "rack work" in kept.out
    ended(second.llmgw("nodes", "uncordon", "n2"))
    assert lab.ssh("n2", f"test -e {STATE}/cordoned").returncode == 1
    ended(first.llmgw("facts", "refresh", "--gather", "state"))
    assert states(first) == {"n2": "ok", "n3": "ok,cordoned"}


def test_a_quarantined_device_is_shown_and_cleared(lab: Lab, sites: tuple[Site, Site]) -> None:
    site, _ = sites
    mark = {"device": CARD, "code": "xid-fatal", "message": "card 2 had XID 79", "since": 1.0e9, "by": "ops@ctl1"}
    text = shlex.quote(json.dumps(mark))
    lab.ssh("n2", f"mkdir -p {STATE}/quarantine && echo {text} > {STATE}/quarantine/{CARD}.json", check=True)
    ended(site.llmgw("facts", "refresh", "--gather", "state"))
    page = " ".join(ended(site.llmgw("nodes", "n2")).out.split())
    assert f"{CARD} quarantined by ops@ctl1" in page
    assert f"llmgw nodes clear n2 {CARD}" in page  # hosts without cards: it is one that was replaced
    assert "card 2 had XID 79" in ended(site.llmgw("nodes", "clear", "n2", CARD)).out
    assert lab.ssh("n2", f"ls {STATE}/quarantine", check=True).stdout == ""
    assert CARD not in ended(site.llmgw("nodes", "n2")).out


def test_a_node_whose_disk_is_full_is_told_and_the_other_is_marked(lab: Lab, sites: tuple[Site, Site]) -> None:
    site, _ = sites
    fill = f"dd if=/dev/zero of={STATE}/full bs=4k 2>/dev/null; test -s {STATE}/full"
    lab.ssh(
        "n3", f"mkdir -p {STATE} && mount -t tmpfs -o size=64k none {STATE} && touch {STATE}/marks.lock", check=True
    )
    lab.ssh("n3", fill, check=True)
    done = ended(site.llmgw("nodes", "drain", "n2", "n3"), status=1)
    assert "n2  drained now" in done.out
    assert "n3  FAILED: Not every mark could be made or taken away: [Errno 28] No space left on device" in done.err
    assert sorted(lab.ssh("n3", f"ls -A {STATE}", check=True).stdout.split()) == ["full", "marks.lock"]
    assert states(site) == {"n2": "ok,drained", "n3": "ok"}
