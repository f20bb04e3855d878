# SPDX-License-Identifier: Apache-2.0
"""Where replicas go: constraints say where they can, scores where they should, assignment decides. Pure and
deterministic.

Glossary: an *instance* is a replica seen running on a node; it is *kept* when it stays where it is, *displaced* when
it must go
elsewhere, *surplus* when nothing wants it. A *ledger* is what a node still has to give while replicas are being placed.
"""
