# SPDX-License-Identifier: Apache-2.0
"""Card tables of a bare nvidia-smi, for machines that do not exist."""

from __future__ import annotations

_RULE = "+-----------------------------------------+------------------------+----------------------+"


def card(
    index: int,
    name: str,
    *,
    mode: str = "On",
    bus_id: str = "00000000:10:00.0",
    fan: str = "N/A",
    temperature: str = "36C",
    memory: str = "1MiB /  81559MiB",
) -> str:
    """The lines of one card in the form of drivers 550 and newer."""
    return (
        f"| {index:3}  {name:<26} {mode:>6} | {bus_id:>18} Off |                    0 |\n"
        f"|{fan:>4} {temperature:>5}    P0             72W /  700W | {memory:>22} |      0%      Default |\n"
        "|                                         |                        |             Disabled |\n"
        f"{_RULE}\n"
    )


def whole(*cards: str, driver: str = "550.90.07", new: bool = False) -> str:
    """A whole table with its head; `new` is the head of drivers from 610 on."""
    word, cuda = ("KMD", "CUDA UMD") if new else ("Driver", "CUDA")
    head = (
        f"Mon Jan  5 10:00:00 2026\n{_RULE}\n"
        f"| NVIDIA-SMI {driver}        {word} Version: {driver}        {cuda} Version: 13.3 |\n"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        "|                                         |                        |               MIG M. |\n"
        "|=========================================+========================+======================|\n"
    )
    return head + "".join(cards)


# Below the cards: rows that look like cards and are none.
INSTANCES = """
+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |
|==================+==================================+===========+=======================|
|  0    7   0   0  |              15MiB /  9984MiB    | 14      0 |  1   0    1    0    1 |
+------------------+----------------------------------+-----------+-----------------------+
"""
PROCESSES = """
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|=========================================================================================|
|    0   N/A  N/A     77501      C   a | b | c                                    5160MiB |
+-----------------------------------------------------------------------------------------+
"""
# A table of 2013, with four digits of PCI domain and MB.
OLD = """+------------------------------------------------------+
| NVIDIA-SMI 5.319.17   Driver Version: 319.17         |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 680     N/A  | 0000:03:00.0     N/A |                  N/A |
| 31%   44C  N/A     N/A /  N/A |       14MB /  2047MB |     N/A      Default |
+-------------------------------+----------------------+----------------------+
|   1  Tesla K20c          Off  | 0000:04:00.0     Off |                    0 |
|ERR!   35C    P8    16W / 225W |  4%   11MB /  4799MB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""
