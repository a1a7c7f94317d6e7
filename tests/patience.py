"""
Limits of waits in tests, in seconds.

A wait ends when its condition holds; these limits say when a test fails. DRAGOMAN_PATIENCE multiplies them,
for a slow machine.
"""

from demo.controlplane.client import CONTROLLERS_READY, PROGRAM_READY, SCALE

__all__ = ["CONTROLLERS_READY", "PROGRAM_READY"]  # the control plane itself waits for these

DEMO_READY = 400 * SCALE  # from nothing to a demo that has told its story
COMMAND = 120 * SCALE  # a program that does one thing and ends
EXIT = 60 * SCALE  # from a signal to the end of a program and all that it has started
SCHEDULER = 120 * SCALE  # the real one says of a pod what is expected
EVENT = 30 * SCALE  # a change is told to who watches
PAGE = 60 * SCALE  # what somebody waits for in front of a page, without reloading it
LOCK = 60 * SCALE  # one of two threads, until the other has gone on
