# SPDX-License-Identifier: Apache-2.0
"""How an endpoint stands: probes, its own load, and what requests to it showed."""
