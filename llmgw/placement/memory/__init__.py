# SPDX-License-Identifier: Apache-2.0
"""How much memory a replica needs on each device (P13): weights, KV cache and the rest, within bounds; unknown rather
than a guess. Pure.
"""
