# SPDX-License-Identifier: Apache-2.0
"""Matrices of `nvidia-smi topo -p2p`, which look like those of `-m` and tell something else."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import topo_p2p
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import topo_texts
from tests.support.topo_texts import Box, p2p, printed, uniform


def test_peers_are_read_by_pair() -> None:
    assert asdict(topo_p2p.read(p2p(3, "CNS"))) == {
        "is_topo_m": False,
        "n_gpus": 3,
        "pairs": {"0-1": "CNS", "0-2": "CNS", "1-2": "CNS"},
        "all_ok": False,
    }


@pytest.mark.parametrize("shape", [topo_texts.tabs_to_stops, topo_texts.indented, topo_texts.underlined])
def test_an_unusual_shape_changes_nothing(shape: object) -> None:
    assert callable(shape)
    assert topo_p2p.read(shape(p2p(8))).all_ok
    assert len(topo_p2p.read(shape(p2p(12))).pairs) == 66


def test_one_pair_that_cannot_is_enough() -> None:
    assert not topo_p2p.read(p2p(2).replace("GPU0\tX\tOK", "GPU0\tX\tU")).all_ok


def test_a_matrix_of_peers_after_one_of_paths_is_read() -> None:
    assert topo_p2p.read(printed(Box(uniform(2))) + p2p(3)).n_gpus == 3


def test_a_matrix_of_paths_is_refused_by_name() -> None:
    for box in (Box(uniform(1)), Box(uniform(2, "SYS"), year=2017), Box(uniform(8))):
        with pytest.raises(Unreadable, match="found one of 'topo -m'"):
            topo_p2p.read(printed(box))


def test_what_holds_no_matrix_is_refused() -> None:
    with pytest.raises(Unreadable, match="found no header of GPU columns"):
        topo_p2p.read("Option -p2p is missing its value.")
