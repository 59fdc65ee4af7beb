"""Waiting for what a service does by itself."""

import time


def expect_prompt(times, seconds):
    """Three of four came within so many seconds, or all but one where they are fewer, and the others within four times that: a
    busy machine may stand still now and then, and what is late by itself is late each time."""
    print(f"{len(times)} times, the longest {max(times):.2f} s")
    assert len(times) > 2 and sorted(times)[-1 - max(1, len(times) // 4)] < seconds and max(times) < 4 * seconds, times


def eventually(condition, what="it has not come about", seconds=30, longest=0.1):
    """What `condition` returns once that is true. Asked less often the longer it takes, for others need the processor, with
    pauses of at most `longest` seconds: short where it watches for what must not happen meanwhile."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, what
        time.sleep(min(longest, 0.01 + waited / 20))
    return found
