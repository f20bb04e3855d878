# SPDX-License-Identifier: Apache-2.0
"""Who may enter now, and who waits: keys, limits of services and keys, the line, and what a request used."""
