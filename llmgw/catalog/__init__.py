# SPDX-License-Identifier: Apache-2.0
"""Authored YAML in, `llmgw.model.replica.Catalog` out, or every mistake at once with its place, reason and fix (C1-C7).

This layer decides what a catalog may say and what it means. It knows no hardware, no facts and no inventory: whether
something fits is placement's business. Only `load` reads files; everything else is a pure function of bytes.
"""
