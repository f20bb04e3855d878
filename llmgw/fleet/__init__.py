# SPDX-License-Identifier: Apache-2.0
"""What the fleet is: inventory and facts joined into one snapshot.

Reading (inventory, store) is I/O; joining them (snapshot, devices) is pure. This layer must not know the catalog's
services.
"""
