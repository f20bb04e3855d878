# SPDX-License-Identifier: Apache-2.0
"""The route table: built from what runs, encoded for the gateways.

This layer decides which endpoints a route names. It must not probe, place or speak HTTP.
"""
