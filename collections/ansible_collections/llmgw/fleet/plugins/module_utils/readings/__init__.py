# SPDX-License-Identifier: BSD-2-Clause
"""Reads the texts that tools and the kernel print: text in, plain dataclasses out, nothing touched.

Private to llmgw and pure. A reader raises `Unreadable` and nothing else, on any text. What a text does not say is None.
"""
