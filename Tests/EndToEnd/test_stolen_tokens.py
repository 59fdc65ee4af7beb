"""An access token that was stolen before its owner proved again who they are: it is what it was, and no more."""

import asyncio

import pytest
from chain_actor import Chain
from chains import Lab
from latchkey.identity.v1 import auth_service_pb2 as auth
from world import CLIENT_ID

ANY = {"pick": 0, "other": 0, "to": "thief", "whole": False, "signed": False, "bound": False}


@pytest.fixture(scope="module")
def lab(engine, binaries, tmp_path_factory):
    with Lab(binaries, tmp_path_factory.mktemp("stolen"), engine) as lab:
        yield lab


def stolen(lab, then):
    """A thief copies the owner's access token; two minutes later the owner steps up; `then` is called with both."""

    async def go():
        lab.open()
        try:
            actor = Chain(lab)
            await actor.begin()
            [owner] = actor.holdings
            await actor.do_steal(owner, ANY)
            thief = actor.holdings[-1]
            await lab.move(120)
            await actor.do_step_up(owner, ANY)
            assert owner.claims["auth_time"] >= thief.claims["auth_time"] + 120
            await then(actor, owner, thief)
        finally:
            lab.close()

    asyncio.run(go())


def answer(actor):
    """What the last step was answered."""
    return actor.events[-1].said


def test_a_code_is_confirmed_on_the_tokens_own_proof(lab):
    """R43: who confirms a code with an access token of before the owner's step-up hands on a proof of before it"""

    async def then(actor, owner, thief):
        await actor.do_login(thief, ANY | {"scope": "account basic profile"})
        child = actor.holdings[-1]
        assert child is not thief, answer(actor)
        assert child.claims["auth_time"] == thief.claims["auth_time"]
        # What the owner lets in is as recent as they are.
        await actor.do_login(owner, ANY | {"scope": "account basic profile"})
        assert actor.holdings[-1].claims["auth_time"] == owner.claims["auth_time"]

    stolen(lab, then)


def test_a_device_is_bound_and_moved_to_on_the_tokens_own_proof(lab):
    """R43: a device that is bound or moved to by an access token of before the owner's step-up has a proof of before it"""

    async def then(actor, owner, thief):
        for step in (actor.do_bind, actor.do_move):
            await step(thief, ANY | {"scope": "account basic profile"})
            child = actor.holdings[-1]
            assert child is not thief, answer(actor)
            assert child.claims["auth_time"] == thief.claims["auth_time"]
        # Also when the device comes back by its key.
        await actor.do_key(None, ANY | {"who": "thief"})
        assert answer(actor).startswith("ok"), answer(actor)
        assert actor.holdings[-1].claims["auth_time"] == thief.claims["auth_time"]

    stolen(lab, then)


def test_an_offer_is_made_on_the_last_proof(lab):
    """R43: an access token of before the owner's step-up makes no offer on the owner's proof, and voids none of theirs"""

    async def then(actor, owner, thief):
        await actor.do_offer(owner, ANY)
        await actor.do_offer(thief, ANY)
        assert answer(actor) == "TOKEN_EXPIRED"
        await actor.do_redeem(None, ANY | {"keep": True})
        assert actor.holdings[-1].claims["auth_time"] == owner.claims["auth_time"]

    stolen(lab, then)


def test_a_step_up_between_confirming_and_redeeming_adds_nothing(lab):
    """R43: what was confirmed before a step-up and is collected after it is a proof of before it"""

    async def then(actor, owner, thief):
        confirm = actor.call

        async def call(service, path, request, answer, by=None):
            if path.endswith("/PollSession"):
                await lab.move(30)
                await actor.do_step_up(owner, ANY)
            return await confirm(service, path, request, answer, by)

        proven = owner.claims["auth_time"]
        actor.call = call
        await actor.do_login(owner, ANY | {"scope": "basic profile"})
        assert owner.claims["auth_time"] >= proven + 30
        assert actor.holdings[-1].claims["auth_time"] == proven

    stolen(lab, then)


def test_an_older_token_is_introspected_as_it_is(lab):
    """R43: a token of before a step-up is told to be a proof of before it, also to who asks about it afterwards"""

    async def then(actor, owner, thief):
        for by in (owner, thief):
            request = auth.IntrospectRequest(token=by.access)
            said = await actor.identity("AuthService/Introspect", request, auth.IntrospectResponse, by)
            assert said.active and said.auth_time.seconds == by.claims["auth_time"]

    stolen(lab, then)


def test_a_token_says_what_was_proven(lab):
    """R43: `amr` says what the last proof was; what comes of a session has its, and an older token's is no longer known"""

    async def then(actor, owner, thief):
        assert thief.claims["amr"] == owner.claims["amr"] == ["pwd"]
        await actor.do_login(thief, ANY | {"scope": "basic profile"})
        assert "amr" not in actor.holdings[-1].claims
        await actor.do_login(owner, ANY | {"scope": "account basic profile", "to": "owner"})
        screen = actor.holdings[-1]
        assert screen.claims["amr"] == ["pwd"]
        await actor.do_key(None, ANY | {"who": "owner"})
        phone = actor.holdings[-1]
        assert phone.claims["amr"] == ["pop"]
        # A key of the owner's, then the password.
        await actor.do_step_up(screen, ANY | {"other": 3})
        assert screen.claims["amr"] == ["pop"], answer(actor)
        await actor.do_step_up(phone, ANY)
        assert phone.claims["amr"] == ["pwd"]
        said = await actor.identity(
            "AuthService/Introspect", auth.IntrospectRequest(token=phone.refreshes[-1]), auth.IntrospectResponse, phone
        )
        assert said.amr == ["pwd"]

    stolen(lab, then)


def test_an_older_token_of_a_code_takes_no_place(lab):
    """R43: a token of a code's session, of before a step-up in it, does not take the session's place"""

    async def then(actor, owner, _):
        await actor.do_login(owner, ANY | {"scope": "account basic profile", "to": "owner"})
        screen = actor.holdings[-1]
        await actor.do_steal(screen, ANY)
        thief = actor.holdings[-1]
        await lab.move(120)
        await actor.do_step_up(screen, ANY)
        assert answer(actor).startswith("ok"), answer(actor)

        def exchange(token):
            request = auth.AuthenticateRequest(client_id=CLIENT_ID, qr_grant=auth.QrGrantCredential(access_token=token))
            names = {"session": actor.name("s"), "holder": actor.name("h")}
            return actor.tried(
                "exchange", names, actor.identity("AuthService/Authenticate", request, auth.AuthenticateResponse)
            )

        assert not await exchange(thief.access)
        assert answer(actor) == "INVALID_CREDENTIALS"
        assert (await exchange(screen.access)).tokens.access_token

    stolen(lab, then)
