# SPDX-License-Identifier: Apache-2.0
"""Structures of nvidia-ml-py that a caller gives to NVML to be filled in, field by field as the library has them."""

from __future__ import annotations

import ctypes

_UUID = ctypes.c_uint8 * 16


class Fabric1(ctypes.Structure):
    _fields_ = (
        ("clusterUuid", _UUID),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint),
    )


class Fabric2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("clusterUuid", _UUID),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint32),
        ("state", ctypes.c_uint),
        ("healthMask", ctypes.c_uint32),
    )

    def __init__(self) -> None:
        super().__init__(version=0x02000024)


class Fabric3(ctypes.Structure):
    _fields_ = (*Fabric2._fields_, ("healthSummary", ctypes.c_uint8))

    def __init__(self) -> None:
        super().__init__(version=0x3000028)


class Clique(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint8), ("id", ctypes.c_uint32))


class Fabric4(ctypes.Structure):
    _fields_ = (
        ("clusterUuid", _UUID),
        ("status", ctypes.c_uint),
        ("cliques", Clique * 64),
        ("numCliques", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
        ("healthMask", ctypes.c_uint32),
        ("healthSummary", ctypes.c_uint8),
    )


_COUNTERS = (
    "aggregateUncParity",
    "aggregateUncSecDed",
    "aggregateCor",
    "volatileUncParity",
    "volatileUncSecDed",
    "volatileCor",
    "aggregateUncBucketL2",
    "aggregateUncBucketSm",
    "aggregateUncBucketPcie",
    "aggregateUncBucketMcu",
    "aggregateUncBucketOther",
)


class SramStatus(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in _COUNTERS),
        ("bThresholdExceeded", ctypes.c_uint),
    )

    def __init__(self) -> None:
        super().__init__(version=0x1000068)
