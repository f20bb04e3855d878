# SPDX-License-Identifier: Apache-2.0
"""What kinds of cards and engines can do, as tables with their sources, and pure functions that look things up (C5).

This layer knows no catalog document, no facts and no node: the catalog's checks, the engines and placement all ask it.
What is not in a table is unknown, and what is unknown refuses nothing.
"""
