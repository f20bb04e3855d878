# SPDX-License-Identifier: Apache-2.0
"""The plan: what differs between desired and observed (diff), in which order it is closed (order), as text and JSON.
Pure.
"""
