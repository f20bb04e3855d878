# SPDX-License-Identifier: Apache-2.0
"""The gateway: one URL for clients, many engines behind it.

This layer decides which endpoint answers a request, and whether one may be asked at all. It serves by the newest good
bundle alone: it must not read the catalog, ssh anywhere, or change a node. Bodies pass through it byte for byte (G1).

A request's way: it is parsed in wire.client, dataplane makes an exchange of it, admit lets it in, routing chooses an
endpoint, and an attempt asks that one and relays its answer. table is what requests are routed by: the bundle, joined
with what endpoints finds out. records keep what became of it, admin tells, and processes run it all.
"""
