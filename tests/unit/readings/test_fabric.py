# SPDX-License-Identifier: Apache-2.0
"""The Fabric section of nvidia-smi: old and new, whole and cut, of one card and of several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import fabric
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.fabric import CardFabric, FabricReading

UUID = "0a0b0c0d-0000-4000-8000-00000000000f"


def section(
    *, state: str = "Completed", status: str = "Success", uuid: str = UUID, summary: str = "Healthy", clique: str = "7"
) -> str:
    return f"""    Fabric
        State                             : {state}
        Status                            : {status}
        CliqueId                          : {clique}
        ClusterUUID                       : {uuid}
        Health
            Summary                       : {summary}
            Bandwidth                     : Full
            Route Recovery in progress    : False
            Incorrect Configuration       : None
"""


def test_everything_is_read_and_a_joined_card_is_usable() -> None:
    assert fabric.read(section()) == FabricReading(
        "Completed", "Success", 7, UUID, "Healthy", "Full", usable_for_mnnvl=True
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "In Progress"},
        {"status": "Insufficient Resources"},
        {"uuid": "00000000-0000-0000-0000-000000000000"},
        {"uuid": "N/A"},
        {"summary": "Limited Capacity"},
        {"summary": "Unhealthy"},
    ],
)
def test_one_thing_amiss_makes_it_unusable(changed: dict[str, str]) -> None:
    assert fabric.read(section(**changed)).usable_for_mnnvl is False


def test_health_that_is_not_told_does_not_count_against_a_card() -> None:
    found = fabric.read(section(summary="N/A"))
    assert (found.health_summary, found.usable_for_mnnvl) == (None, True)


def test_the_section_ends_where_the_next_begins() -> None:
    before, after = (
        "    Gpu Reset Status\n        State : no\n",
        f"    Processes : None\n        ClusterUUID : {UUID}\n",
    )
    text = f"{before}    Fabric\n        State : Completed\n{after}"
    found = fabric.read(text)
    assert (found.state, found.cluster_uuid) == ("Completed", None)


def test_of_several_cards_the_first_is_read_and_the_others_follow_it() -> None:
    second = section(state="Not Started", clique="2")
    text = f"GPU 00000000:0A:00.0\n{section(clique='1')}--\nGPU 00000000:0B:00.0\n{second}"
    found = fabric.read(text)
    assert (found.card, found.state, found.clique_id) == ("00000000:0A:00.0", "Completed", 1)
    assert found.usable_for_mnnvl is True
    assert found.others == (
        CardFabric(
            "Not Started", "Success", 2, UUID, "Healthy", "Full", usable_for_mnnvl=False, card="00000000:0B:00.0"
        ),
    )
    headless = "".join(part.split("\n", 1)[1] for part in (section(clique="1"), second))
    cut = fabric.read(headless)
    assert [(one.card, one.state, one.clique_id) for one in (cut, *cut.others)] == [
        (None, "Completed", 1),
        (None, "Not Started", 2),
    ]


def test_the_cards_of_an_xml_document_are_named() -> None:
    def element(address: str, state: str) -> str:
        return f'<gpu id="{address}"><fabric><state>{state}</state></fabric></gpu>'

    found = fabric.read(element("00000000:0A:00.0", "Completed") + element("00000000:0B:00.0", "In Progress"))
    assert [(one.card, one.state) for one in (found, *found.others)] == [
        ("00000000:0A:00.0", "Completed"),
        ("00000000:0B:00.0", "In Progress"),
    ]


def test_indentation_that_was_lost_and_a_heading_that_was_cut_off_change_nothing() -> None:
    flat = "\n".join(line.strip() for line in section().splitlines())
    assert fabric.read(flat) == fabric.read(section())
    assert fabric.read(section().split("\n", 1)[1]) == fabric.read(section())


def test_the_element_of_the_xml_reads_the_same() -> None:
    text = (
        "<gpu><fabric>\n<state>Completed</state><status>Success</status><cliqueId>7</cliqueId>"
        f"<clusterUuid>{UUID}</clusterUuid>\n<health><summary>Healthy</summary><bandwidth>Full</bandwidth></health>"
        "</fabric></gpu>"
    )
    assert fabric.read(text) == fabric.read(section())


def test_a_number_that_is_none_is_unknown() -> None:
    assert fabric.read(section(clique="N/A")).clique_id is None
    assert fabric.read(section(clique="[N/A]")).clique_id is None


@pytest.mark.parametrize(
    "text", ["", "Fabric", "    Fabric\n    Processes : None\n", "No devices were found", "<fabric></fabric>"]
)
def test_without_a_state_there_is_no_reading(text: str) -> None:
    with pytest.raises(Unreadable):
        fabric.read(text)


@given(st.binary(max_size=100), st.integers(0, 600))
def test_any_bytes_give_a_reading_or_the_readers_own_error(noise: bytes, place: int) -> None:
    whole = section()
    text = whole[: place % len(whole)] + noise.decode("utf-8", "replace") + whole[place % len(whole) :]
    try:
        found = fabric.read(text)
    except Unreadable:
        return
    assert not found.usable_for_mnnvl or found.cluster_uuid is not None
