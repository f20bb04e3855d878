# SPDX-License-Identifier: Apache-2.0
"""systemd unit files from placed members: finished text with its digests (R5). Pure: writes and starts nothing."""
