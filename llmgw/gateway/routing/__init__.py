# SPDX-License-Identifier: Apache-2.0
"""Which endpoint gets a request: costs in seconds, policies, and what is known of prompts. Pure: no I/O, no clock."""
