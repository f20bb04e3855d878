# SPDX-License-Identifier: Apache-2.0
"""How a gateway runs: one process or several, their listeners, their shared counters, and their restarts."""
