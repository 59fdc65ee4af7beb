"""Waiting for what a service does by itself."""

import time


def eventually(condition, what="it has not come about", seconds=30, longest=0.1):
    """What `condition` returns once that is true. Asked less often the longer it takes, for others need the processor, with
    pauses of at most `longest` seconds: short where it watches for what must not happen meanwhile."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, what
        time.sleep(min(longest, 0.01 + waited / 20))
    return found
