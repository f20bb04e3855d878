# SPDX-License-Identifier: Apache-2.0
"""Matrices of `nvidia-smi topo -m` in every shape in which drivers print and people paste them."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import topo
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from tests.support import topo_texts
from tests.support.topo_texts import Box, aligned, printed, uniform

TWO = Box(uniform(2, "PHB"), cpus=["0-15", "16-31"], numa=["0", "1"])
NAMED = ("mlx5_0", "mlx5_1", "rocep49s0f0")


def affinities(text: str) -> list[tuple[str | None, str | None, int | None]]:
    return [(card.cpu_affinity, card.numa_affinity, card.gpu_numa_id) for card in topo.read(text).per_gpu]


def test_a_matrix_of_two_cards_is_read_whole() -> None:
    read = topo.read(printed(Box(uniform(2, "NV12", NAMED), NAMED, cpus=["0,64", "0-7"], numa=["3", "0-1"])))
    assert json.loads(json.dumps(asdict(read))) == {
        "n_gpus": 2,
        "affinity_columns": ["cpu", "numa", "gpunuma"],
        "nic_columns": ["NIC0", "NIC1", "NIC2"],
        "nic_legend": {"NIC0": "mlx5_0", "NIC1": "mlx5_1", "NIC2": "rocep49s0f0"},
        "gpu_rows_present": [0, 1],
        "per_gpu": [
            {
                "gpu": card,
                "nics": dict.fromkeys(NAMED, "NODE"),
                "cpu_affinity": ["0,64", "0-7"][card],
                "numa_affinity": ["3", "0-1"][card],
                "numa_nodes": [[3], [0, 1]][card],
                "numa_node": [3, None][card],
                "gpu_numa_id": None,
            }
            for card in range(2)
        ],
        "gpu_pairs_by_type": {"NV12": [[0, 1]]},
        "nvlink_pairs": [[0, 1, "NV12"]],
        "nvlink_all_to_all": True,
        "nics_found": None,
    }


@pytest.mark.parametrize("year", [2017, 2021, 2022, 2024])
def test_every_generation_of_drivers_names_its_own_columns(year: int) -> None:
    read = topo.read(printed(Box(uniform(3, "SOC", NAMED, "PIX"), NAMED, year=year)))
    assert read.affinity_columns == ("cpu", "numa", "gpunuma")[: {2017: 1, 2024: 3}.get(year, 2)]
    assert [list(card.nics) for card in read.per_gpu] == [list(NAMED)] * 3
    assert read.gpu_pairs_by_type == {"SOC": [(0, 1), (0, 2), (1, 2)]}
    assert read.nvlink_all_to_all is False


def test_sixteen_cards_have_two_digit_labels() -> None:
    read = topo.read(printed(Box(uniform(16, "NV6"))))
    assert (read.n_gpus, len(read.nvlink_pairs), read.nvlink_all_to_all) == (16, 120, True)


def test_one_card_is_linked_to_none() -> None:
    read = topo.read(printed(Box(uniform(1))))
    assert (read.n_gpus, read.gpu_pairs_by_type, read.nvlink_all_to_all) == (1, {}, False)


@pytest.mark.parametrize("escape", ["\x1b", "", "\u241b", "^["])
def test_terminal_escapes_and_what_is_left_of_them_are_dropped(escape: str) -> None:
    assert topo.read(topo_texts.underlined(printed(TWO), escape)) == topo.read(printed(TWO))


def test_blanks_that_do_not_break_are_blanks() -> None:
    assert topo.read(topo_texts.tabs_to_stops(printed(TWO)).replace(" ", "\u00a0")) == topo.read(printed(TWO))


EMPTY = [
    (["0-7", "8-15"], ["0", "1"], ["N/A", "9"]),
    (["0-7", ""], ["0", "1"], ["N/A", "N/A"]),
    (["", ""], ["", ""], ["N/A", "N/A"]),
    (["", "8-15"], ["", ""], ["", "9"]),
    (["", "0-63,128-191"], ["0-3", ""], ["N/A", "9"]),
    (["", ""], ["", "1"], ["", ""]),
]


@pytest.mark.parametrize("shape", [str, topo_texts.tabs_to_stops, topo_texts.tabs_to_four_blanks, topo_texts.indented])
@pytest.mark.parametrize(("cpus", "numa", "card_numa"), EMPTY)
@pytest.mark.parametrize("adapters", [(), NAMED])
def test_an_empty_cell_is_told_by_the_place_of_the_others(
    shape: object, cpus: list[str], numa: list[str], card_numa: list[str], adapters: tuple[str, ...]
) -> None:
    box = Box(uniform(2, "NV18", adapters), adapters, cpus, numa, card_numa)
    expected = [
        (cpu or None, node or None, int(own) if own.isdigit() else None)
        for cpu, node, own in zip(cpus, numa, card_numa, strict=True)
    ]
    assert callable(shape)
    assert affinities(shape(printed(box))) == expected
    assert affinities(aligned(box)) == expected


def test_a_driver_that_prints_a_tab_more_before_na_is_read_the_same() -> None:
    assert affinities(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV3\t0-47\t\tN/A\nGPU1\tNV3\t X \t\t\tN/A"
    ) == [
        ("0-47", None, None),
        (None, None, None),
    ]


def test_columns_without_the_second_tab_are_read_the_same() -> None:
    text = "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0\t1\n"
    assert affinities(text) == [("0-71", "0", 1)]


def test_where_nothing_tells_a_list_is_one_of_cpus_and_a_number_a_node() -> None:
    text = "   GPU0 GPU1 CPU Affinity NUMA Affinity\nGPU0 X   PHB 4-7\nGPU1  PHB X    1\n"
    assert affinities(text) == [("4-7", None, None), (None, "1", None)]


@pytest.mark.parametrize(
    ("cell", "nodes", "node"),
    [
        ("0", (0,), 0),
        ("15", (15,), 15),
        ("0-3", (0, 1, 2, 3), None),
        ("0,8,252-255", (0, 8, 252, 253, 254, 255), None),
        ("0,3-5", (0, 3, 4, 5), None),
        ("N/A", (), None),
        ("", (), None),
        ("0-99999", (), None),
        ("3-1", (), None),
        ("x", (), None),
    ],
)
def test_numa_affinity_is_a_node_a_range_or_a_list(cell: str, nodes: tuple[int, ...], node: int | None) -> None:
    (card,) = topo.read(printed(Box(uniform(1), numa=[cell]))).per_gpu
    assert (card.numa_nodes, card.numa_node) == (nodes, node)
    assert card.numa_affinity == (None if cell in {"", "N/A"} else cell)


@pytest.mark.parametrize(
    "shape",
    [
        topo_texts.header_left,
        topo_texts.header_collapsed,
        topo_texts.header_on_two_lines,
        topo_texts.after_other_output,
        topo_texts.behind_the_command,
        topo_texts.before_another,
        topo_texts.glued,
        topo_texts.narrow,
        topo_texts.indented,
        topo_texts.quoted,
        topo_texts.commented,
        topo_texts.underscored,
    ],
)
@pytest.mark.parametrize("year", [2017, 2021, 2022, 2024])
def test_an_unusual_shape_changes_nothing(shape: object, year: int) -> None:
    box = Box(uniform(8, "NV18", NAMED, "SYS"), NAMED, cpus=["0-31,64-95"] * 8, numa=["0"] * 8, year=year)
    plain = topo.read(printed(box))
    assert callable(shape)
    read = topo.read(shape(printed(box)))
    assert asdict(read) == {**asdict(plain), "nics_found": read.nics_found}


@pytest.mark.parametrize(("rule", "mark"), [("|", ""), ("|", "**"), ("+", "")])
@pytest.mark.parametrize("year", [2017, 2021, 2022, 2024])
def test_a_table_of_a_document_is_read_the_same(year: int, rule: str, mark: str) -> None:
    box = Box(uniform(3, "NV6", NAMED), NAMED, ["0-7", "", "8-15"], ["0", "1", ""], ["4", "", "12"], year)
    assert topo.read(topo_texts.table(box, rule, mark)) == topo.read(printed(box))


def test_headings_may_be_short() -> None:
    text = "   GPU0  GPU1  CPU Affinity  NUMA  GPU NUMA\n---\nGPU0  X  PIX  0-7  0  4\nGPU1  PIX  X  8-15  1  N/A\n"
    assert affinities(text) == [("0-7", "0", 4), ("8-15", "1", None)]


def test_a_sign_of_quotation_within_a_line_is_no_mark() -> None:
    text = printed(Box(uniform(2, "PHB"), cpus=["0-7", "8-15"], year=2021))
    assert topo.read(text.replace("\t0-7\t0", "\t0-7\t0 # first > GPU0")) == topo.read(text)


def test_single_blanks_between_the_last_headings_are_enough() -> None:
    text = printed(Box(uniform(2, "NV4", ("mlx5_0",)), ("mlx5_0",), year=2021))
    text = text.replace("mlx5_0\tCPU Affinity\tNUMA", "mlx5_0 CPU Affinity NUMA", 1)
    read = topo.read(text)
    assert (read.nic_columns, read.affinity_columns) == (("mlx5_0",), ("cpu", "numa"))


@pytest.mark.parametrize("cut", ["CPU Aff", "CPU Affinity\tNUMA", "CPU Affinity\tNUMA Affinity\tGPU NUMA", "CPU"])
def test_a_heading_that_is_cut_is_no_adapter(cut: str) -> None:
    read = topo.read(f"\tGPU0\tGPU1\t{cut}\nGPU0\t X \tPIX\t0-7\t1\t\tN/A\nGPU1\tPIX\t X \t0-7\t1\t\tN/A\n")
    assert read.nic_columns == ()
    assert read.affinity_columns == ("cpu", "numa", "gpunuma")[: cut.count("\t") + 1]
    assert [card.cpu_affinity for card in read.per_gpu] == ["0-7", "0-7"]


def test_adapters_keep_their_order_and_their_names() -> None:
    adapters = ("mlx5_10", "mlx5_1", "mlx5_bond_0", "roceP6p3s0", "mlx5_0_dma", "hfi1_0")
    for year in (2021, 2022):
        read = topo.read(printed(Box(uniform(2, "PIX", adapters), adapters, year=year)))
        assert [list(card.nics) for card in read.per_gpu] == [list(adapters)] * 2


def test_an_adapter_whose_row_is_cut_off_is_not_taken_for_another() -> None:
    adapters = tuple(f"mlx5_{number}" for number in range(12))
    text = printed(Box(uniform(1, "X", adapters), adapters, year=2021))
    cut = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("mlx5_1\t"))
    cut = cut[: cut.index("mlx5_3\tNODE")]
    assert topo.read(cut).nic_columns == adapters


def test_the_legend_gives_names_in_its_own_order_and_may_be_cut() -> None:
    text = printed(Box(uniform(1, "X", NAMED), NAMED))
    assert topo.read(text.replace("  NIC1: mlx5_1\n", "")).per_gpu[0].nics == {
        "mlx5_0": "NODE",
        "NIC1": "NODE",
        "rocep49s0f0": "NODE",
    }
    assert topo.read(text[: text.index("NIC Legend")]).nic_legend is None
    assert topo.read(f"{text}\nHost: other\n  NIC7: mlx5_9\n").nic_legend == {
        "NIC0": "mlx5_0",
        "NIC1": "mlx5_1",
        "NIC2": "rocep49s0f0",
    }


def test_a_cut_matrix_says_which_rows_it_has_and_which_pairs_they_tell() -> None:
    text = printed(Box(uniform(4, "NV18")))
    read = topo.read(text[: text.index("GPU2\tNV18")])
    assert (read.n_gpus, read.gpu_rows_present, read.nvlink_all_to_all) == (4, (0, 1), None)
    assert read.gpu_pairs_by_type == {"NV18": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]}
    later = text[: text.index("GPU0\t X")] + text[text.index("GPU3\tNV18") :]
    assert topo.read(later).gpu_pairs_by_type == {"NV18": [(0, 3), (1, 3), (2, 3)]}


def test_a_row_that_is_cut_among_its_cards_is_none() -> None:
    text = printed(Box(uniform(4, "NV18")))
    assert topo.read(text[: text.index("GPU1\tNV18") + 12]).gpu_rows_present == (0,)


def test_only_the_first_matrix_counts() -> None:
    first = printed(Box(uniform(2, "PHB", NAMED), NAMED, year=2022)).partition("\nNIC Legend")[0]
    second = printed(Box(uniform(4, "NV4", NAMED), NAMED, year=2022))
    read = topo.read(f"{first}\n{second}")
    assert (read.n_gpus, read.nic_legend) == (2, None)


def test_rows_that_come_again_are_those_of_another_matrix() -> None:
    rows = "GPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n"
    read = topo.read(f"\tGPU0\tGPU1\tCPU Affinity\n{rows}{rows.replace('PHB', 'SYS')}")
    assert (read.gpu_rows_present, read.gpu_pairs_by_type) == ((0, 1), {"PHB": [(0, 1)]})


def test_a_tool_that_leaves_adapters_out_says_how_many_there_are() -> None:
    assert topo.read(topo_texts.after_other_output(printed(TWO))).nics_found == 76


@pytest.mark.parametrize("word", ["OK", "NS", "CNS", "GNS", "TNS", "DR", "U"])
def test_a_matrix_of_peers_is_refused_by_name(word: str) -> None:
    for cards in (1, 2, 8):
        with pytest.raises(Unreadable, match="found one of 'topo -p2p'"):
            topo.read(topo_texts.p2p(cards, word))


def test_a_matrix_of_paths_after_one_of_peers_is_read() -> None:
    assert topo.read(topo_texts.p2p(2) + "\n" + printed(TWO)) == topo.read(printed(TWO))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "Failed to run topology matrix",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)",
        "\tGPU0\tGPU1\tCPU Affinity\n",
        "GPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n",
        "X    = Self\nGPU0 and GPU1 are cards\n",
    ],
)
def test_what_holds_no_matrix_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="looked for a matrix of 'nvidia-smi topo -m'"):
        topo.read(text)
