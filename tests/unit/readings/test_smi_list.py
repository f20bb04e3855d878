# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -L`: cards and MIG devices by UUID."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_list
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.errors import Unreadable
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_list import ListedGpu, ListedInstance
from tests.support.smi_texts import mig_uuid, uuid


def test_a_list_has_cards_and_their_instances_with_profiles() -> None:
    text = (
        f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {uuid(0)})\n"
        f"  MIG 1c.3g.40gb  Device  0: (UUID: {mig_uuid(1)})\r\n"
        f"  MIG 1g.10gb+me  Device  2: (UUID: {mig_uuid(2)})\n"
        "Unable to determine the device handle for gpu 0000:11:00.0: Unknown Error\n"
        f"GPU 2: Odd (name): x (UUID: {uuid(2)})\n"
        f"  MIG 1g.12gb-me  Device  0: (UUID: {mig_uuid(3)})"
    )
    first = (ListedInstance(0, "1c.3g.40gb", mig_uuid(1)), ListedInstance(2, "1g.10gb+me", mig_uuid(2)))
    assert smi_list.read(text).gpus == (
        ListedGpu(0, "NVIDIA A100-SXM4-80GB", uuid(0), first),
        ListedGpu(2, "Odd (name): x", uuid(2), (ListedInstance(0, "1g.12gb-me", mig_uuid(3)),)),
    )


def test_the_first_form_of_mig_uuids_came_without_a_profile() -> None:
    text = f"GPU 3: Graphics Device (UUID: {uuid(3)})\nMIG Device 0: (UUID: MIG-{uuid(3)}/11/1)\n"
    assert smi_list.read(text).gpus == (
        ListedGpu(3, "Graphics Device", uuid(3), (ListedInstance(0, None, f"MIG-{uuid(3)}/11/1"),)),
    )


@pytest.mark.parametrize("text", ["", "No devices found.", f"  MIG 1g.5gb Device 0: (UUID: {mig_uuid(1)})"])
def test_a_text_without_a_card_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="GPU <index>"):
        smi_list.read(text)


def test_a_line_that_lost_its_last_parenthesis_is_a_card_too() -> None:
    (gpu,) = smi_list.read("GPU 0: NVIDIA A2 (UUID: GPU-0a1b2c3d-0000-0000-0000-00000000000a\n").gpus
    assert (gpu.name, gpu.uuid) == ("NVIDIA A2", "GPU-0a1b2c3d-0000-0000-0000-00000000000a")
