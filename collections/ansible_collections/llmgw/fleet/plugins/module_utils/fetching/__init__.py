# SPDX-License-Identifier: BSD-2-Clause
"""Fetching a model's weights into a hub cache on a node (D12). Private to llmgw.

`fetch.py` leads; `child.py` is the only part that talks to a hub, and runs in the interpreter that has huggingface_hub.
"""
