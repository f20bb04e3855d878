# SPDX-License-Identifier: Apache-2.0
"""The short texts of nvidia-smi: lists, capabilities, and what it says when it fails."""

from __future__ import annotations

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils.readings import smi_text
from ansible_collections.llmgw.fleet.plugins.module_utils.readings.smi_text import Failure, ListedGpu, ListedInstance
from tests.support.smi_texts import mig_uuid, uuid


def test_a_list_has_cards_and_their_instances_with_profiles() -> None:
    text = (
        f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {uuid(0)})\n"
        f"  MIG 1c.3g.40gb  Device  0: (UUID: {mig_uuid(1)})\r\n"
        f"  MIG 1g.10gb+me  Device  2: (UUID: {mig_uuid(2)})\n"
        "Unable to determine the device handle for gpu 0000:11:00.0: Unknown Error\n"
        f"GPU 2: Odd (name): x (UUID: {uuid(2)})\n"
        f"  MIG Device 0: (UUID: MIG-{uuid(2)}/1/0)"
    )
    first = (ListedInstance(0, "1c.3g.40gb", mig_uuid(1)), ListedInstance(2, "1g.10gb+me", mig_uuid(2)))
    assert smi_text.listing(text) == (
        ListedGpu(0, "NVIDIA A100-SXM4-80GB", uuid(0), first),
        ListedGpu(2, "Odd (name): x", uuid(2), (ListedInstance(0, None, f"MIG-{uuid(2)}/1/0"),)),
    )


def test_capabilities_are_told_by_uuid_and_an_old_driver_tells_none() -> None:
    assert smi_text.compute_capabilities(f"{uuid(0)}, 9.0\n{uuid(1)}, [N/A]\n") == {uuid(0): "9.0"}
    assert smi_text.compute_capabilities('Field "compute_cap" is not a valid field to query.') == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" \n", Failure("empty")),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", Failure("driver-not-loaded")),
        ("Failed to initialize NVML: Driver/library version mismatch", Failure("driver-library-mismatch")),
        ("Failed to initialize NVML: Unknown Error", Failure("nvml-init-failed")),
        (
            "Unable to determine the device handle for GPU3: 0000:5A:00.0: GPU is lost.  Reboot the system",
            Failure("gpu-lost", 3, "0000:5A:00.0"),
        ),
        (
            "Unable to detect the device handle for GPU0000:5A:00.0: Unknown Error",
            Failure("gpu-handle-error", None, "0000:5A:00.0"),
        ),
        ("No devices were found", Failure("no-devices")),
        ("Failed to display compute instances: Insufficient Permissions", Failure("insufficient-permissions")),
        ("0, [Insufficient Permissions], 3 %", None),
        ("0, 31 %, [Unknown Error]", None),
    ],
)
def test_a_message_names_its_condition_and_its_card(text: str, expected: Failure | None) -> None:
    assert smi_text.failure(text) == expected


def test_every_line_about_an_unreachable_card_is_kept() -> None:
    lines = [
        "Unable to determine the device handle for GPU1: 0000:11:00.0: Unknown Error",
        "GPU 00000000:12:00.0",
        "Unable to determine the device handle for GPU 0000:13:00.0: GPU is lost.  Reboot the system",
    ]
    found = smi_text.unreachable_cards("\n".join(lines))
    assert [(one.bus_id, one.text) for one in found] == [("0000:11:00.0", lines[0]), ("0000:13:00.0", lines[2])]
