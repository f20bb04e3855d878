# SPDX-License-Identifier: Apache-2.0
"""Runs a fleet of LLM inference servers from a YAML catalog: `decide(catalog, fleet)` is pure, all around it is I/O.

Layers, from the top: cli; apply, gateway and console; decide and doctor; plan and routes; units; placement; engines;
fleet; catalog; model; nodekit and errors. Each imports only what is below it, and pyproject.toml holds it to that.
"""
