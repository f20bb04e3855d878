# SPDX-License-Identifier: Apache-2.0
"""Answers of nvidia-smi for machines that do not exist, in the forms that its drivers print."""

from __future__ import annotations

from collections.abc import Sequence


def uuid(number: int) -> str:
    return f"GPU-0000aaaa-0000-4000-8000-{number:012d}"


def mig_uuid(number: int) -> str:
    return f"MIG-0000bbbb-0000-5000-8000-{number:012d}"


def bus_id(number: int) -> str:
    return f"00000000:{0x10 + number:02X}:00.0"


def process(pid: int, name: str, used: str, kind: str = "C", place: tuple[str, str] = ("N/A", "N/A")) -> str:
    return f"""
        <process_info>
            <gpu_instance_id>{place[0]}</gpu_instance_id>
            <compute_instance_id>{place[1]}</compute_instance_id>
            <pid>{pid}</pid>
            <type>{kind}</type>
            <process_name>{name}</process_name>
            <used_memory>{used}</used_memory>
        </process_info>"""


def instance(index: int, gi: int, ci: int = 0, total: str = "40192 MiB") -> str:
    return f"""
        <mig_device>
            <index>{index}</index>
            <gpu_instance_id>{gi}</gpu_instance_id>
            <compute_instance_id>{ci}</compute_instance_id>
            <device_attributes><shared><multiprocessor_count>42</multiprocessor_count></shared></device_attributes>
            <fb_memory_usage><total>{total}</total><used>25 MiB</used></fb_memory_usage>
        </mig_device>"""


def card(
    number: int = 0,
    *,
    name: str = "NVIDIA H100 80GB HBM3",
    total: str = "81559 MiB",
    used: str = "4 MiB",
    gpu_uuid: str | None = None,
    mig: tuple[str, str] = ("Disabled", "Disabled"),
    instances: Sequence[str] = (),
    processes: Sequence[str] = (),
    volatile: str = "<dram_correctable>0</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>",
    pending: str = "No",
    failure: str = "No",
    recovery: str = "None",
    reason: str = "gpu_idle",
    persistence: str = "Enabled",
) -> str:
    """One `<gpu>` element in the form of drivers 550 and newer."""
    return f"""
    <gpu id="{bus_id(number)}">
        <product_name>{name}</product_name>
        <persistence_mode>{persistence}</persistence_mode>
        <mig_mode><current_mig>{mig[0]}</current_mig><pending_mig>{mig[1]}</pending_mig></mig_mode>
        <mig_devices>{"".join(instances) or "None"}</mig_devices>
        <serial>16500000000{number:02d}</serial>
        <uuid>{gpu_uuid or uuid(number)}</uuid>
        <minor_number>{number}</minor_number>
        <gpu_recovery_action>{recovery}</gpu_recovery_action>
        <clocks_event_reasons>
            <clocks_event_reason_{reason}>Active</clocks_event_reason_{reason}>
            <clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
        </clocks_event_reasons>
        <fb_memory_usage><total>{total}</total><reserved>480 MiB</reserved><used>{used}</used></fb_memory_usage>
        <utilization><gpu_util>7 %</gpu_util></utilization>
        <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
        <ecc_errors>
            <volatile>{volatile}</volatile>
            <aggregate>
                <sram_correctable>1</sram_correctable><dram_correctable>2</dram_correctable>
                <dram_uncorrectable>0</dram_uncorrectable><sram_threshold_exceeded>No</sram_threshold_exceeded>
            </aggregate>
        </ecc_errors>
        <remapped_rows>
            <remapped_row_corr>1</remapped_row_corr><remapped_row_unc>0</remapped_row_unc>
            <remapped_row_pending>{pending}</remapped_row_pending>
            <remapped_row_failure>{failure}</remapped_row_failure>
        </remapped_rows>
        <temperature><gpu_temp>31 C</gpu_temp></temperature>
        <gpu_power_readings>
            <average_power_draw>70.11 W</average_power_draw><instant_power_draw>71.00 W</instant_power_draw>
            <current_power_limit>700.00 W</current_power_limit>
        </gpu_power_readings>
        <fabric>
            <state>Completed</state><status>Success</status><cliqueId>0</cliqueId>
            <clusterUuid>00000000-0000-0000-0000-000000000000</clusterUuid>
            <health><summary>N/A</summary><bandwidth>N/A</bandwidth></health>
        </fabric>
        <processes>{"".join(processes)}
        </processes>
    </gpu>"""


def document(*cards: str, attached: int | None = None) -> str:
    """A whole answer of `nvidia-smi -q -x`."""
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
    <timestamp>Mon Jan  5 10:00:00 2026</timestamp>
    <driver_version>570.86.15</driver_version>
    <cuda_version>12.8</cuda_version>
    <attached_gpus>{len(cards) if attached is None else attached}</attached_gpus>{"".join(cards)}
</nvidia_smi_log>
"""


# A driver of 2018: no MIG, no fabric, old names of sections, counters by kind of memory.
OLD = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v9.dtd">
<nvidia_smi_log>
    <driver_version>390.10</driver_version>
    <attached_gpus>1</attached_gpus>
    <gpu id="00000000:03:00.0">
        <product_name>Tesla P100-PCIE-16GB</product_name>
        <uuid>{uuid(9)}</uuid>
        <clocks_throttle_reasons>
            <clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown>
            <clocks_throttle_reason_applications_clocks_setting>Not Active
            </clocks_throttle_reason_applications_clocks_setting>
        </clocks_throttle_reasons>
        <fb_memory_usage><total>16280 MiB</total><used>0 MiB</used></fb_memory_usage>
        <ecc_errors><volatile>
            <single_bit><device_memory>3</device_memory><total>3</total></single_bit>
            <double_bit><device_memory>2</device_memory><total>2</total></double_bit>
        </volatile></ecc_errors>
        <retired_pages>
            <multiple_single_bit_retirement><retired_count>4</retired_count></multiple_single_bit_retirement>
            <double_bit_retirement><retired_count>1</retired_count></double_bit_retirement>
            <pending_retirement>Yes</pending_retirement>
        </retired_pages>
        <power_readings>
            <power_draw>25.69 W</power_draw><enforced_power_limit>250.00 W</enforced_power_limit>
        </power_readings>
        <processes></processes>
    </gpu>
</nvidia_smi_log>
"""
