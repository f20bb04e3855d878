# SPDX-License-Identifier: Apache-2.0
"""HTTP on both legs: clients, engines, heads, bodies, and the gateway's own refusals. It decides nothing of routing."""
