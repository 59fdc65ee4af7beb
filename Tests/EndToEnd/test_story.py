"""The whole product once, and again with every service killed between any two of its steps."""

import random
import threading
import time

import pytest
import services
from story import Story


@pytest.mark.every_engine
def test_story(world):
    """G17: the whole story by a stock gRPC client: guest, records, account, conflict, merge, QR sign-in"""
    Story(world).play()
    world.assert_alive()


def test_story_by_tls(tls_world):
    """R41: the whole story over TLS"""
    Story(tls_world).play()
    tls_world.assert_alive()


@pytest.mark.parametrize("name", services.NAMES)
def test_killed_between_all_steps(own_world, name):
    """R39: kill -9 of one service after every step, beside others that go on, loses nothing that was acknowledged"""

    def between(_):
        own_world.fleet[name].restart()
        own_world.open()

    Story(own_world).play(between)


@pytest.mark.every_engine
@pytest.mark.parametrize("name", services.NAMES)
def test_killed_once(own_world, name):
    """R39: a service that was killed once, after any step, goes on to the end as if it had not been"""
    step = random.choice(Story.STEPS)
    print(f"{name} is killed after {step}")

    def between(done):
        if done == step:
            own_world.fleet[name].restart()
            own_world.open()

    Story(own_world).play(between)


def test_all_killed_between_all_steps(own_world):
    """R39: kill -9 of all services after every step loses nothing that was acknowledged"""

    def between(_):
        for service in own_world.fleet.services.values():
            service.kill()
        for service in own_world.fleet.services.values():
            service.start(wait=False)
        for service in own_world.fleet.services.values():
            service.wait_until_ready()
        own_world.open()

    Story(own_world).play(between)


def test_killed_while_merging(own_world):
    """R39: kill -9 of the migrator again and again while it merges: each record ends in one place, once"""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lot = random.Random(seed)
    story = Story(own_world)
    done = threading.Event()

    def killer():
        # On a slow machine a merge may get nowhere between two of them.
        end = time.monotonic() + 20
        while time.monotonic() < end and not done.wait(lot.uniform(0.02, 0.25)):
            own_world.fleet["migrator"].restart()

    def between(step):
        if step == "conflict":
            thread.start()
        elif step == "merged":
            done.set()
            thread.join()

    thread = threading.Thread(target=killer)
    try:
        story.play(between)
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
