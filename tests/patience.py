"""
How long tests wait for something that happens in its own time, in seconds.

A wait ends when its condition holds: these limits only say when a test gives up. DRAGOMAN_PATIENCE multiplies
them, for a machine that does much else.
"""

import os

SCALE = float(os.environ.get("DRAGOMAN_PATIENCE", "1"))

DEMO_READY = 400 * SCALE  # from nothing to a demo with its story told
