# SPDX-License-Identifier: Apache-2.0
"""What nvidia-imex-ctl prints: three generations of the table, JSON, one word; and its files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import (
    imex,
    imex_addresses,
    imex_config,
)
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.imex import ListedNode

LEGEND = """Connectivity Table Legend:
I - Invalid - Node wasn't reachable, no connection status available
N - Never Connected
R - Recovering - Connection was lost, but clean up has not yet been triggered.
!V! - Version mismatch, communication disabled.
C - Connected - Ready for operation

1/2/2026 03:04:05.678
"""
NEWEST = (
    LEGEND
    + """Nodes:
Node #0   - 10.7.0.10        - READY                - Version: 580.10.01           - Hostname: tray-a
Node #1   - 10.7.0.11        - UNAVAILABLE          - Version:                     - Hostname: tray-b.example.net
Node #2   * 10.7.0.12 *      - READY                - Version: 580.10.01           - Hostname: tray-c
Node #10  - fd00::7          - NOT_CONFIGURED       - Version:

 Nodes From\\To  0  1  2  10
       0        C  N  C  !V!
       1        I  I  I  I
       2        C  N  C  !M!
      10        !V!I  !M!C

Domain State: DEGRADED"""
)


def test_the_newest_table_tells_the_local_node_host_names_and_missing_versions() -> None:
    found = imex.read(NEWEST)
    assert found.nodes == (
        ListedNode(0, "10.7.0.10", "READY", local=False, version="580.10.01", hostname="tray-a"),
        ListedNode(1, "10.7.0.11", "UNAVAILABLE", local=False, version=None, hostname="tray-b.example.net"),
        ListedNode(2, "10.7.0.12", "READY", local=True, version="580.10.01", hostname="tray-c"),
        ListedNode(10, "fd00::7", "NOT_CONFIGURED", local=False, version=None, hostname=None),
    )
    assert (found.domain_state, found.n_nodes, found.local_node) == ("DEGRADED", 4, 2)
    assert (found.ready, found.not_ready) == ((0, 2), (1, 10))


def test_cells_that_touch_are_told_apart_and_columns_are_named_by_the_header() -> None:
    found = imex.read(NEWEST)
    assert found.matrix_size == (4, 4)
    assert found.non_connected_pairs == (
        (0, 1, "N"),
        (0, 10, "!V!"),
        (1, 0, "I"),
        (1, 1, "I"),
        (1, 2, "I"),
        (1, 10, "I"),
        (2, 1, "N"),
        (2, 10, "!M!"),
        (10, 0, "!V!"),
        (10, 1, "I"),
        (10, 2, "!M!"),
    )
    assert found.non_connected_count == 11


@pytest.mark.parametrize(
    "line",
    [
        "Node #4   - host-with-dashes-0004 - READY",
        "Node #4 - host-with-dashes-0004 - READY -",
        "Node #4 - host-with-dashes-0004 - READY - Version:",
        "\tNode #4   -   host-with-dashes-0004   -   READY   -   Version:    -   Hostname:",
    ],
)
def test_names_with_dashes_are_one_column_and_empty_columns_are_unknown(line: str) -> None:
    assert imex.read(f"Nodes:\n{line}\n").nodes == (ListedNode(4, "host-with-dashes-0004", "READY"),)


@pytest.mark.parametrize(
    "line",
    [
        "Node #4   * tray-4 *  - READY",
        "Node #4   - *tray-4*  - READY",
        "Node #4 *tray-4* - READY",
        "Node #4 * - tray-4 - READY",
    ],
)
def test_a_star_around_the_address_marks_the_local_node(line: str) -> None:
    found = imex.read(line)
    assert (found.nodes, found.local_node) == ((ListedNode(4, "tray-4", "READY", local=True),), 4)


def test_a_table_that_was_cut_off_says_what_it_holds() -> None:
    found = imex.read(NEWEST[: NEWEST.index("       2        C")])
    assert (found.domain_state, found.n_nodes, found.matrix_size) == (None, 4, (2, 4))
    listed_only = imex.read("Node #0   - 10.7.0.10   - READY")
    assert (listed_only.matrix_size, listed_only.non_connected_count) == ((0, 0), 0)


def test_of_two_tables_in_one_text_the_first_is_read() -> None:
    found = imex.read(
        "Node #0 - 10.7.0.1 - READY\nDomain State: UP\nNode #0 - 10.7.0.1 - UNAVAILABLE\nDomain State: DOWN\n"
    )
    assert (found.domain_state, found.ready) == ("UP", (0,))


def test_a_domain_that_is_down_needs_no_nodes() -> None:
    assert imex.read("Domain State: DOWN\n").domain_state == "DOWN"


def document(**changed: object) -> dict[str, object]:
    up, invalid = {"status": "CONNECTED", "changed": True}, {"status": "INVALID"}
    return {
        "nodes": {
            "10": {"status": "UNAVAILABLE", "host": "10.7.0.20", "connections": {"2": invalid, "10": invalid}},
            "2": {
                "status": "READY",
                "host": "10.7.0.12",
                "hostName": "tray-c",
                "version": "580.10.01",
                "connections": {"2": up, "10": {"status": "NEVER_CONNECTED"}},
            },
        },
        "timestamp": "1/2/2026 03:04:05.678",
        "status": "DEGRADED",
        **changed,
    }


@pytest.mark.parametrize("indent", [None, 4])
def test_json_is_ordered_by_number_and_reads_like_the_table(indent: int | None) -> None:
    found = imex.read("a warning first\n" + json.dumps(document(), indent=indent))
    assert found.nodes == (
        ListedNode(2, "10.7.0.12", "READY", local=False, version="580.10.01", hostname="tray-c"),
        ListedNode(10, "10.7.0.20", "UNAVAILABLE"),
    )
    assert (found.domain_state, found.ready, found.not_ready, found.matrix_size) == ("DEGRADED", (2,), (10,), (2, 2))
    assert found.non_connected_pairs == ((2, 10, "NEVER_CONNECTED"), (10, 2, "INVALID"), (10, 10, "INVALID"))


def test_json_may_spell_its_keys_otherwise() -> None:
    text = json.dumps(
        {"domain_state": "UP", "Nodes": [{"ip": "10.7.0.1", "State": "READY", "HostName": "a", "version": ""}]}
    )
    found = imex.read(text)
    assert (found.domain_state, found.nodes) == ("UP", (ListedNode(0, "10.7.0.1", "READY", hostname="a"),))


@pytest.mark.parametrize("word", ["READY", "WAITING_FOR_PEERS", "UNAVAILABLE", "INIT_GPU"])
def test_one_word_is_the_daemons_own_status(word: str) -> None:
    found = imex.read(f"{word}\r\n")
    assert (found.daemon_status, found.n_nodes, found.matrix_size) == (word, None, None)


@pytest.mark.parametrize(
    "text", ["", "  \n", "Connection refused", "{}", '{"nodes": ', '{"nodes": 3}', LEGEND, "[" * 9000]
)
def test_what_is_no_answer_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        imex.read(text)


@given(st.binary(max_size=300), st.integers(0, len(NEWEST)), st.booleans())
def test_any_bytes_give_a_reading_or_the_readers_own_error(noise: bytes, place: int, as_json: bool) -> None:
    whole = json.dumps(document()) if as_json else NEWEST
    text = whole[: place % len(whole)] + noise.decode("utf-8", "replace") + whole[place % len(whole) + len(noise) :]
    try:
        found = imex.read(text)
    except Unreadable:
        return
    assert found.daemon_status or found.nodes or found.domain_state


def test_the_node_list_may_lie_elsewhere() -> None:
    assert (
        imex_config.node_list_path("#IMEX_NODE_CONFIG_FILE=/no\nIMEX_NODE_CONFIG_FILE = /shared/nodes.cfg\n")
        == "/shared/nodes.cfg"
    )
    assert imex_config.node_list_path("LOG_LEVEL=4\nIMEX_NODE_CONFIG_FILE=\n") is None


def test_a_node_list_has_one_address_a_line() -> None:
    assert imex_config.listed_nodes("# trays\n10.7.0.1\n\n 10.7.0.2   # spare\r\ntray-c\n") == (
        "10.7.0.1",
        "10.7.0.2",
        "tray-c",
    )


TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 10.7.0.0/24 2 0 2
        |-- 10.7.0.0
           /24 link UNICAST
        |-- 10.7.0.12
           /32 host LOCAL
        |-- 10.7.0.255
           /32 link BROADCAST
"""


def test_own_addresses_are_those_that_the_kernel_calls_local() -> None:
    assert imex_addresses.own_ipv4(TRIE) == {"10.7.0.12"}
    lines = (
        "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000007 04 40 00 82     eth0\n"
    )
    assert imex_addresses.own_ipv6(lines) == {"fd00::7"}


def test_addresses_have_one_plain_form_and_names_none() -> None:
    assert imex_addresses.plain("FD00:0:0::7%eth0") == "fd00::7"
    assert imex_addresses.plain("tray-c") is None
