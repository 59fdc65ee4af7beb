"""What an owner and a thief do with an account, in random chains, against a model of what each may do."""

import asyncio
import random

import pytest
from chain_model import RULES, Event, disagreement
from chains import Lab, explore, unnoticed

# With seeds of its own each time, and those by which every rule is noticed.
CHAINS, KNOWN, KNOWN_SEED = 300, 500, "rules-20"


@pytest.fixture(scope="module")
def lab(engine, binaries, tmp_path_factory):
    with Lab(binaries, tmp_path_factory.mktemp("chains"), engine) as lab:
        yield lab


@pytest.fixture(scope="module")
def known(lab):
    """The events of chains that are the same each time, and what is wrong with them."""
    return asyncio.run(explore(lab, KNOWN_SEED, KNOWN, report=lambda _: None))


def test_authority_never_grows(lab):
    """R43, R44, R46: in random chains of derivations, revocations, step-ups and moves of the clock nobody gets more than the owner agreed to"""
    seed = str(random.randrange(10**9))
    histories, wrong = asyncio.run(explore(lab, seed, CHAINS, report=lambda _: None))
    assert not wrong, f"seed {seed}\n" + "\n".join(wrong)
    assert len(histories) == CHAINS


def test_each_rule_is_noticed(known):
    """R43: the model says nothing in vain: without any one of its rules it disagrees with the services"""
    histories, wrong = known
    assert not wrong, "\n".join(wrong)
    missing = [rule for rule, chain in unnoticed(histories).items() if chain is None]
    assert not missing, f"no chain notices that these are missing: {missing}"


def test_the_judge_sees_what_is_wrong(known):
    """R43: a single answer that was not the services' is found in a history"""
    histories, _ = known
    chance, found = random.Random(1), 0
    for events in histories[:100]:
        number = chance.randrange(1, len(events))
        event = events[number]
        other = Event(event.at, event.op, event.args, "ok" if not event.answer.startswith("ok") else "SESSION_REVOKED", event.lags)
        assert disagreement(events[:number] + [other])
        found += 1
    assert found == 100 and len(RULES) > 30
