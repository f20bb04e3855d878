# SPDX-License-Identifier: Apache-2.0
"""The console: pages for people, rendered on the server from the admin API's documents and from nothing else.

This layer decides how things look. It must not read a bundle, ask an engine, or know the gateway's inside. Pages work
without internet, scripts or images, with a keyboard, in light and dark, and on a phone.
"""
