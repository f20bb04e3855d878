# SPDX-License-Identifier: Apache-2.0
"""The derived nouns that every layer shares: frozen slotted dataclasses without logic.

This layer holds shapes only. It must not read, decide or format anything; it knows no engine, no YAML and no Ansible.
"""
