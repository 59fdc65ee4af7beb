"""Waiting for what a service does by itself."""

import time


def eventually(condition, what="it has not come about", seconds=30):
    """What `condition` returns once that is true. Asked less often the longer it takes, for others need the processor."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, what
        time.sleep(min(0.1, 0.01 + waited / 20))
    return found
