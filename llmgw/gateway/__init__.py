# SPDX-License-Identifier: Apache-2.0
"""The gateway: routes clients' requests to engines by a published bundle, and tells what it sees (G1-G12).

A client's request comes in at `wire.client`, becomes an `exchange`, enters a service by `admit`, is given to the endpoint
that `routing` chooses, and is answered by an `attempt`. `table` is what requests are routed by: the bundle joined with what
`endpoints` finds out. `records` keep what became of it, `admin` tells, and `processes` run it all.

The data plane knows of the fleet only the model and the routes, and decides nothing about where replicas run.
"""
