# SPDX-License-Identifier: Apache-2.0
"""The gateway: one URL for clients, many engines behind it.

This layer decides which endpoint answers a request, and whether one may be asked at all. It serves by the newest good
bundle alone: it must not read the catalog, ssh anywhere, or change a node. Bodies pass through it byte for byte (G1).

A request's way: dataplane (path, headers, key) -> body (model name) -> admission -> choose -> upstream -> outbox. The
admin side (admin, metrics, views) only reads what the data plane counts.
"""
