# SPDX-License-Identifier: BSD-2-Clause
"""Reads a machine through Host and turns what it says into the facts contract (D1-D18).

Private to llmgw. Every probe has a reading half (through Host) and a pure half. Nothing here raises for what a machine
does wrong, and nothing here changes the machine.
"""
