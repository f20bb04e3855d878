# SPDX-License-Identifier: Apache-2.0
"""The shape of a catalog as pydantic models: JSON Schema, reference page and error sentences are all read from here.

Checks that look at more than one field are not here but in `llmgw.catalog.checks`, so that a mistake in one field never
hides another.
"""
