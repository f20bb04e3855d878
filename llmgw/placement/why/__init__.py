# SPDX-License-Identifier: Apache-2.0
"""Why a replica is where it is or nowhere, and the cheapest things that would change that, each of them tried (P11).
Pure.
"""
