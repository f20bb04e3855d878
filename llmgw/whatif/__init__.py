# SPDX-License-Identifier: Apache-2.0
"""What if (P12): the same decision over a catalog and a fleet that were changed in thought, and what differs. Pure.

Glossary: a *supposition* changes the catalog or the fleet; *said* is what it tells of itself and of what it had to
assume; a *like node* is a node of the fleet that has exactly the supposed devices; a *side* is a catalog, a fleet and
the decision that follows from them.
"""
