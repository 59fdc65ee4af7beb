"""The owner and the thief of one chain (chains.py): makes its calls, writes down what was answered, and looks for what no
model has to be asked about."""

import asyncio
import hashlib
import json
import secrets


import proofs
from chain_model import ENDED, Event
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from fast_client import Refused
from latchkey.common.v1 import common_pb2
from latchkey.identity.v1 import account_service_pb2 as accounts
from latchkey.identity.v1 import auth_service_pb2 as auth
from latchkey.identity.v1 import device_service_pb2 as devices
from latchkey.identity.v1 import grant_service_pb2 as grants
from latchkey.identity.v1 import guest_service_pb2 as guests
from latchkey.identity.v1 import link_service_pb2 as links
from latchkey.identity.v1 import session_service_pb2 as sessions
from latchkey.identity.v1 import transfer_service_pb2 as transfers
from latchkey.migration.v1 import migration_service_pb2 as migrations
from latchkey.migration.v1 import record_service_pb2 as records
from latchkey.qr.v1 import qr_session_service_pb2 as qr
from world import CLIENT_ID, PASSWORD, base64url, from_base64url

IDENTITY, QR, MIGRATION = "/latchkey.identity.v1.", "/latchkey.qr.v1.QrSessionService/", "/latchkey.migration.v1."
# Ways to say that a session is over, or was never agreed to by one that lives.
OVER = {
    "SESSION_REVOKED", "TOKEN_INVALID", "TOKEN_EXPIRED", "REFRESH_TOKEN_INVALID", "REFRESH_TOKEN_REUSED", "CONFIRMER_GONE",
    "access_denied", "invalid_token", "REFRESH_INVALID", "REFRESH_REUSED",
}  # fmt: skip
# What each look asks for: the service, the method, an empty request of it, and its line in the table.
LOOKS = [
    ("identity", IDENTITY + "DeviceService/RemoveDevice", devices.RemoveDeviceRequest(key_thumbprint="A" * 43),
     ("account", True, True)),
    ("identity", IDENTITY + "AccountService/GetProfile", accounts.GetProfileRequest(), ("profile", False, False)),
    ("identity", IDENTITY + "AccountService/UpdateProfile", accounts.UpdateProfileRequest(), ("account", False, False)),
    ("identity", IDENTITY + "AuthService/CreateWebSession", auth.CreateWebSessionRequest(), ("basic", False, False)),
    ("migrator", MIGRATION + "RecordService/ListCollections", records.ListCollectionsRequest(), ("basic", False, False)),
    ("migrator", MIGRATION + "MigrationService/ListMigrations", migrations.ListMigrationsRequest(),
     ("profile", False, False)),
    ("migrator", MIGRATION + "MigrationService/UndoMigration", migrations.UndoMigrationRequest(migration_id="00" * 16),
     ("account", True, True)),
]  # fmt: skip
INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE = 3, 5, 14


class Key:
    def __init__(self):
        self.private = ec.generate_private_key(ec.SECP256R1())
        numbers = self.private.public_key().public_numbers()
        self.jwk = common_pb2.EcPublicJwk(
            kty="EC", crv="P-256", x=base64url(numbers.x.to_bytes(32, "big")), y=base64url(numbers.y.to_bytes(32, "big"))
        )

    @property
    def thumbprint(self):
        members = f'{{"crv":"P-256","kty":"EC","x":"{self.jwk.x}","y":"{self.jwk.y}"}}'
        return base64url(hashlib.sha256(members.encode()).digest())

    def sign(self, *parts):
        r, s = utils.decode_dss_signature(
            self.private.sign("\0".join(parts).encode(), ec.ECDSA(hashes.SHA256()))
        )
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


class Holding:
    """What somebody holds of a session."""

    def __init__(self, name, who, session, device=None, bound=None):
        self.name, self.who, self.session = name, who, session
        self.device, self.bound = device, bound
        self.refreshes, self.is_stale, self.is_over = [], False, False

    def take(self, tokens):
        self.access, self.sid = tokens.access_token, tokens.sid
        if tokens.refresh_token:
            self.refreshes.append(tokens.refresh_token)
        self.claims = claims_of(self.access)
        return self


class Unread:
    """An answer of which only counts that there is one."""

    @staticmethod
    def FromString(_):  # noqa: N802
        return True


def claims_of(token):
    return json.loads(from_base64url(token.split(".")[1]))


class Chain:
    def __init__(self, lab):
        self.lab, self.events, self.violations = lab, [], []
        self.holdings, self.sessions, self.credentials, self.offers, self.codes = [], {}, {}, {}, {}
        self.names = {}
        # Whom a thief's session began by, and which of them the owner stood by.
        self.parents, self.stood_by, self.revoked = {}, set(), {}
        self.began = lab.clock.milliseconds

    @property
    def now(self):
        return self.lab.clock.milliseconds

    def name(self, letter):
        self.names[letter] = self.names.get(letter, -1) + 1
        return f"{letter}{self.names[letter]}"

    # Calls

    async def call(self, service, path, request, answer, by=None):
        """A call with whatever proves who asks."""
        if isinstance(by, Holding) and by.bound:
            return await self.prove(service, path, request, answer, by.bound, by.access)
        token = by.access if isinstance(by, Holding) else by
        return await self.ask(service, path, request, answer, (("authorization", f"Bearer {token}"),) if token else ())

    async def ask(self, service, path, request, answer, metadata):
        """A call, again where the service cannot tell for a moment: the clock moves further than any clock does, and a busy
        machine makes the store say that too much is waiting."""
        for _ in range(400):
            try:
                return await self.lab.clients[service].call(path, request, answer, metadata)
            except Refused as refused:
                if refused.status != UNAVAILABLE and refused.reason != "OVERLOADED":
                    raise
            await asyncio.sleep(0.05)
        raise AssertionError(f"{path} stays unavailable")

    async def prove(self, service, path, request, answer, key, token=None):
        """A call with a proof of possession, once more if the service wants a nonce in it."""
        for is_last in (False, True):
            nonce = self.lab.nonces.get(service)
            proof = proofs.make(key.private, f"https://x{path}", token, nonce, at=self.now / 1000)
            metadata = (("dpop", proof),) + ((("authorization", f"DPoP {token}"),) if token else ())
            try:
                return await self.ask(service, path, request, answer, metadata)
            except Refused as refused:
                if is_last or refused.reason != "use_dpop_nonce":
                    raise
                self.lab.nonces[service] = refused.info["dpop_nonce"]

    async def identity(self, method, request, answer, by=None):
        return await self.call("identity", IDENTITY + method, request, answer, by)

    async def tried(self, op, args, call, lags=False):
        """Writes down what became of a step; the answer, or None where it was refused."""
        try:
            answer = await call
            tokens = getattr(answer, "tokens", None)
            said = self.tokens_as_said(tokens) if tokens and tokens.access_token else "ok"
        except Refused as refused:
            answer, said = None, refused.reason or refused.message
        self.events.append(Event(self.now - self.began, op, args, ENDED if said in OVER else said, lags, said))
        return answer

    def tokens_as_said(self, tokens):
        """What the model says of tokens as well."""
        claims = claims_of(tokens.access_token)
        proof, until = claims["auth_time"] - self.began // 1000, (self.now - self.began) // 1000 + tokens.refresh_expires_in
        return f"ok {' '.join(sorted(claims['scope'].split()))}, proof {proof}, until {until}"

    async def challenge(self, key):
        request = guests.GetChallengeRequest(client_id=CLIENT_ID, device_key=key.jwk)
        return (await self.identity("GuestService/GetChallenge", request, guests.GetChallengeResponse)).challenge

    async def proof(self, key, purpose):
        challenge = await self.challenge(key)
        return auth.KeyProof(public_key=key.jwk, challenge=challenge, signature=key.sign(purpose, CLIENT_ID, challenge))

    def device(self, key):
        return guests.Device(device_id=secrets.token_urlsafe(16), public_key=key.jwk, label="chain", platform="python")

    # Who is there

    async def begin(self):
        """An account with a phone, whose key its owner enrolled."""
        phone, root = Key(), Key()
        challenge, device = await self.challenge(phone), self.device(phone)
        signature = phone.sign("latchkey-device-proof-v1", CLIENT_ID, device.device_id, challenge)
        guest = await self.identity(
            "GuestService/IssueGuest",
            guests.IssueGuestRequest(client_id=CLIENT_ID, device=device, challenge=challenge, proof=signature),
            guests.IssueGuestResponse,
        )
        self.identifier = f"user-{secrets.token_hex(8)}@example.com"
        account = await self.identity(
            "AuthService/Register",
            auth.RegisterRequest(client_id=CLIENT_ID, password=self.secret(), guest_token=guest.tokens.access_token),
            auth.RegisterResponse,
        )
        names = {"session": self.name("s"), "holder": self.name("h"), "device": self.name("k"), "credential": self.name("k")}
        owner = self.hold(names, "owner", account.tokens, phone)
        enrolment = links.DeviceKeyEnrolment(proof=await self.proof(root, "latchkey-enrol-unlock-v1"))
        await self.identity(
            "LinkService/LinkIdentity", links.LinkIdentityRequest(device_key=enrolment), links.LinkIdentityResponse, owner
        )
        self.credentials[names["credential"]] = ("owner", root, phone, None, owner.session)
        self.events.append(Event(0, "setup", names, "ok"))

    def secret(self):
        return auth.PasswordCredential(identifier=self.identifier, password=PASSWORD)

    def hold(self, names, who, tokens, device=None, bound=None, parents=()):
        holding = Holding(names["holder"], who, names["session"], device, bound).take(tokens)
        self.holdings.append(holding)
        self.sessions[holding.session] = holding
        self.parents[holding.session] = set(parents)
        return holding

    def came_of(self, session):
        """All that a session came of, by who made what."""
        found, left = set(), [session]
        while left:
            for parent in self.parents.get(left.pop(), ()):
                if parent not in found:
                    found.add(parent)
                    left.append(parent)
        return found

    def pick(self, things, number):
        """One of them, the newer ones more often."""
        return things[-1 - min(number % len(things), number // 2 % len(things))] if things else None

    def living(self, holdings, number):
        """Those of which nobody was told that they are over; now and then all the same one that is."""
        living = [holding for holding in holdings if not holding.is_over]
        return living if living and number % 8 else holdings

    async def fresh(self, by):
        """Renews what its holder knows to be old, as any client does."""
        if by.refreshes and (by.claims["exp"] * 1000 <= self.now or by.is_stale):
            await self.renew(by)

    async def renew(self, by, number=-1):
        by.is_stale = False
        request = auth.RefreshRequest(refresh_token=by.refreshes[number])
        path = IDENTITY + "AuthService/Refresh"
        if by.bound:
            call = self.prove("identity", path, request, auth.RefreshResponse, by.bound)
        else:
            call = self.call("identity", path, request, auth.RefreshResponse)
        answer = await self.tried("refresh", {"by": by.name, "number": number}, call)
        by.is_over = not answer
        if answer:
            by.take(answer.tokens)

    # Steps

    async def take(self, steps):
        if not self.events:
            await self.begin()
        for step in steps:
            who = step["who"]
            mine = [holding for holding in self.holdings if holding.who == who]
            by = self.pick(self.living(mine, step["pick"]), step["pick"])
            if by is None and step["op"] not in ("key", "redeem", "password", "report"):
                continue
            await getattr(self, "do_" + step["op"].replace("-", "_"))(by, step)

    async def do_login(self, by, step):
        await self.code(by, step, qr.PURPOSE_LOGIN, "login", step["bound"])

    async def do_bind(self, by, step):
        await self.code(by, step, qr.PURPOSE_BIND_DEVICE, "bind", True)

    async def do_move(self, by, step):
        await self.code(by, step, qr.PURPOSE_TRANSFER_GUEST, "move", True)

    async def code(self, by, step, purpose, op, with_key):
        """A screen of somebody's shows a code, which the holder of a session scans and confirms."""
        await self.fresh(by)
        key, verifier = Key() if with_key else None, base64url(secrets.token_bytes(32))
        issued = await self.call(
            "qr", QR + "IssueSession",
            qr.IssueSessionRequest(
                client_id=CLIENT_ID, purpose=purpose, scope=step["scope"], device_key=key and key.jwk,
                code_challenge=base64url(hashlib.sha256(verifier.encode()).digest()), code_challenge_method="S256",
            ),
            qr.IssueSessionResponse,
        )  # fmt: skip
        signed = bool(step["signed"] and by.device)
        names = {"session": self.name("s"), "holder": self.name("h"), "code": self.name("q")}
        names |= {"key": self.name("k") if key else None}
        args = {"by": by.name, "scope": step["scope"], "signed": signed} | names
        answer = await self.tried(op, args, self.agreed(by, issued, verifier, key, signed, names["code"]), lags=True)
        if answer:
            child = self.hold(names, step["to"], answer.tokens, key, key, [by.session, names["code"]])
            self.narrows(by.claims, by.session, child)
            if op == "bind":
                self.credentials[names["key"]] = (step["to"], key, key, names["code"], by.session)

    async def agreed(self, by, issued, verifier, key, signed, code):
        scan = await self.call(
            "qr", QR + "ScanSession", qr.ScanSessionRequest(qr_payload=issued.qr_payload), qr.ScanSessionResponse, by
        )
        confirm = qr.ConfirmSessionRequest(confirm_ticket=scan.confirm_ticket)
        if signed:
            digest = base64url(hashlib.sha256(scan.confirm_ticket.encode()).digest())
            signature = by.device.sign("latchkey-qr-confirm-v1", digest, "")
            confirm.reauth_proof.CopyFrom(qr.ReauthProof(device_key=by.device.jwk, signature=signature))
        await self.call("qr", QR + "ConfirmSession", confirm, qr.ConfirmSessionResponse, by)
        poll = qr.PollSessionRequest(device_code=issued.device_code, code_verifier=verifier)
        if key:
            poll.device_proof = key.sign("latchkey-qr-redeem-v1", issued.device_code)
        self.codes[code] = scan.confirm_ticket
        try:
            return await self.call("qr", QR + "PollSession", poll, qr.PollSessionResponse)
        except Refused:
            del self.codes[code]
            raise

    async def do_offer(self, by, step):
        await self.fresh(by)
        name = self.name("t")
        answer = await self.tried(
            "offer", {"by": by.name, "offer": name},
            self.identity(
                "TransferService/CreateTransfer", transfers.CreateTransferRequest(), transfers.CreateTransferResponse, by
            ),
        )  # fmt: skip
        if answer:
            self.offers[name] = (answer.code, by, dict(by.claims))

    async def do_redeem(self, _, step):
        offer = self.pick(list(self.offers), step["other"])
        if not offer:
            return
        code, maker, claims = self.offers[offer]
        key = Key()
        challenge, device = await self.challenge(key), self.device(key)
        names = {"session": self.name("s"), "holder": self.name("h"), "device": self.name("k")}
        request = transfers.RedeemTransferRequest(
            code=code, client_id=CLIENT_ID, device=device, challenge=challenge, keep_old=step["keep"],
            proof=key.sign("latchkey-transfer-proof-v1", CLIENT_ID, device.device_id, challenge, code),
        )  # fmt: skip
        answer = await self.tried(
            "redeem", {"offer": offer, "keep": step["keep"]} | names,
            self.identity("TransferService/RedeemTransfer", request, transfers.RedeemTransferResponse),
        )  # fmt: skip
        if answer:
            child = self.hold(names, step["to"], answer.tokens, key, parents=[maker.session, offer])
            self.narrows(claims, maker.session, child)
            # Whoever gives a place away gives what it was: in a session of the owner's own making a fresh token that was
            # stolen may do there what the owner may.
            if not step["keep"] and (maker.who == "owner" or self.is_stood_by(maker.session)):
                self.stood_by.add(child.session)

    async def do_enrol(self, by, step):
        await self.fresh(by)
        key, name = Key(), self.name("k")
        enrolment = links.DeviceKeyEnrolment(proof=await self.proof(key, "latchkey-enrol-unlock-v1"))
        answer = await self.tried(
            "enrol", {"by": by.name, "credential": name},
            self.identity(
                "LinkService/LinkIdentity", links.LinkIdentityRequest(device_key=enrolment), links.LinkIdentityResponse, by
            ),
        )  # fmt: skip
        self.changes_who_gets_in("enrol", by, answer)
        if answer:
            self.credentials[name] = (by.who, key, by.device, None, by.session)

    async def do_rotate(self, by, step):
        """A device puts a new key in the place of its own, and fetches tokens that are bound to it."""
        await self.fresh(by)
        if not by.device or by.is_over:
            return
        old, new, name = by.device, Key(), self.name("k")
        challenge, device = await self.challenge(old), self.device(new)
        said = (CLIENT_ID, device.device_id, challenge)
        request = devices.RotateDeviceKeyRequest(
            client_id=CLIENT_ID, old_key=old.jwk, device=device, challenge=challenge,
            old_proof=old.sign("latchkey-rotate-key-v1", *said, new.thumbprint),
            new_proof=new.sign("latchkey-rotated-key-v1", *said, old.thumbprint),
        )  # fmt: skip
        answer = await self.tried(
            "rotate", {"by": by.name, "key": name},
            self.identity("DeviceService/RotateDeviceKey", request, devices.RotateDeviceKeyResponse, by),
        )  # fmt: skip
        if not answer:
            return
        for credential, (who, key, on, code, maker) in list(self.credentials.items()):
            if key is old:
                # Whoever kept the old one may try it.
                self.credentials[name] = (who, new, new, code, maker)
            elif on is old:
                self.credentials[credential] = (who, key, new, code, maker)
        for holding in self.holdings:
            if holding.device is old:
                holding.device, holding.bound, holding.is_stale = new, holding.bound and new, True
        await self.fresh(by)

    async def do_key(self, _, step):
        """Somebody signs in by a key of theirs."""
        name = self.pick([name for name, found in self.credentials.items() if found[0] == step["who"]], step["other"])
        if not name:
            return
        _, key, device, code, maker = self.credentials[name]
        proof = await self.proof(key, "latchkey-unlock-v1")
        names = {"session": self.name("s"), "holder": self.name("h")}
        request = auth.AuthenticateRequest(client_id=CLIENT_ID, device_key=auth.DeviceKeyCredential(proof=proof))
        answer = await self.tried(
            "key", {"credential": name} | names, self.identity("AuthService/Authenticate", request, auth.AuthenticateResponse)
        )
        if answer:
            parents = [maker] + ([code] if code else [])
            self.hold(names, step["who"], answer.tokens, device, key if code else None, parents)
            if not code and maker in self.stood_by:
                self.stood_by.add(names["session"])

    async def do_password(self, _, step):
        """The owner signs in; a thief does not know it."""
        names = {"session": self.name("s"), "holder": self.name("h")}
        request = auth.AuthenticateRequest(client_id=CLIENT_ID, password=self.secret())
        answer = await self.tried("password", names, self.identity("AuthService/Authenticate", request, auth.AuthenticateResponse))
        if answer:
            self.hold(names, "owner", answer.tokens)

    async def do_step_up(self, by, step):
        await self.fresh(by)
        mine = [name for name, found in self.credentials.items() if found[0] == by.who]
        if by.who == "owner":
            mine.append(None)
        name = self.pick(mine, step["other"])
        if not mine:
            return
        if name:
            proof = await self.proof(self.credentials[name][1], "latchkey-unlock-v1")
            request = auth.StepUpRequest(device_key=auth.DeviceKeyCredential(proof=proof))
        else:
            request = auth.StepUpRequest(password=self.secret())
        answer = await self.tried(
            "step-up", {"by": by.name, "credential": name},
            self.identity("AuthService/StepUp", request, auth.StepUpResponse, by),
        )  # fmt: skip
        if answer:
            by.refreshes.clear()
            by.take(answer.tokens)
            for holding in self.holdings:
                holding.is_stale |= holding.session == by.session and holding is not by
            if by.who == "owner" or self.credentials[name][4] in self.stood_by:
                self.stood_by.add(by.session)

    async def do_say(self, by, step):
        """Somebody says of a session that it is the account's."""
        await self.fresh(by)
        target = self.pick(self.living(list(self.sessions.values()), step["other"]), step["other"])
        answer = await self.tried(
            "say", {"by": by.name, "session": target.session},
            self.identity(
                "SessionService/ConfirmSession", sessions.ConfirmSessionRequest(sid=target.sid),
                sessions.ConfirmSessionResponse, by,
            ),
        )  # fmt: skip
        self.changes_who_gets_in("say", by, answer)
        if answer is not None:
            self.stood_by.add(target.session)
            for holding in self.holdings:
                holding.is_stale |= holding.session == target.session

    async def do_revoke(self, by, step):
        await self.fresh(by)
        target = self.pick(self.living(list(self.sessions.values()), step["other"]), step["other"])
        answer = await self.tried(
            "revoke", {"by": by.name, "session": target.session},
            self.identity(
                "SessionService/RevokeSession", sessions.RevokeSessionRequest(sid=target.sid),
                sessions.RevokeSessionResponse, by,
            ),
        )  # fmt: skip
        if answer is not None:
            self.revoked[target.session] = by.session

    async def do_others(self, by, step):
        await self.fresh(by)
        answer = await self.tried(
            "others", {"by": by.name},
            self.identity(
                "SessionService/RevokeOtherSessions", sessions.RevokeOtherSessionsRequest(),
                sessions.RevokeOtherSessionsResponse, by,
            ),
        )  # fmt: skip
        self.changes_who_gets_in("others", by, answer)

    async def do_logout(self, by, step):
        await self.fresh(by)
        await self.tried(
            "logout", {"by": by.name}, self.identity("AuthService/Logout", auth.LogoutRequest(), auth.LogoutResponse, by)
        )

    async def do_everywhere(self, by, step):
        await self.fresh(by)
        request = auth.LogoutRequest(scope=auth.LOGOUT_SCOPE_GLOBAL)
        answer = await self.tried(
            "everywhere", {"by": by.name}, self.identity("AuthService/Logout", request, auth.LogoutResponse, by)
        )
        self.changes_who_gets_in("everywhere", by, answer)

    async def do_report(self, _, step):
        """A code is taken back, as the service of codes does when it is used twice."""
        code = self.pick(list(self.codes), step["other"])
        if not code:
            return
        # A ticket begins with the id of its session.
        session = base64url(from_base64url(self.codes[code])[:16])
        request = grants.RevokeForQrRequest(qr_session_id=session, reason="reported")
        await self.tried(
            "report", {"code": code},
            self.identity("GrantService/RevokeForQr", request, grants.RevokeForQrResponse, self.lab.service_token),
        )  # fmt: skip
        self.revoked[code] = None

    async def do_refresh(self, by, step):
        if by.refreshes:
            await self.renew(by)

    async def do_replay(self, by, step):
        """A refresh token of before is shown again: the parent, or one that is older."""
        number = -2 - step["other"] % 2
        if len(by.refreshes) >= -number:
            await self.renew(by, number)

    async def do_steal(self, by, step):
        """The thief copies what is on somebody's device, but for its keys."""
        name = self.name("h")
        self.events.append(
            Event(self.now - self.began, "steal", {"by": by.name, "holder": name, "whole": step["whole"]}, "ok")
        )
        copy = Holding(name, "thief", by.session)
        copy.access, copy.sid, copy.claims, copy.is_stale = by.access, by.sid, by.claims, by.is_stale
        copy.refreshes = list(by.refreshes) if step["whole"] else []
        self.holdings.append(copy)

    async def do_probe(self, by, step):
        await self.fresh(by)
        await self.probe(by, LOOKS[step["other"] % len(LOOKS)])

    async def probe(self, by, look):
        """Whether the table's line lets the call through; what becomes of it behind is not asked."""
        service, path, request, (word, recent, confirmed) = look
        if service != "identity" and not await self.probe(by, LOOKS[0]):
            return False
        args = {"by": by.name, "word": word, "recent": recent, "confirmed": confirmed}
        try:
            await self.call(service, path, request, Unread, by)
            said = "ok"
        except Refused as refused:
            # Behind the table's line there is nothing to be found.
            said = "ok" if refused.status in (INVALID_ARGUMENT, NOT_FOUND) else refused.reason
        reason, said = said, ENDED if said in OVER else said
        op = "probe" if service == "identity" else "probe-elsewhere"
        self.events.append(Event(self.now - self.began, op, args, said, said=reason))
        if recent:
            self.changes_who_gets_in("probe", by, said == "ok" or None)
        self.check_over(by, said)
        return said != ENDED

    async def look(self):
        """At the end: what each holding is still good for."""
        for number, by in enumerate(list(self.holdings)):
            await self.fresh(by)
            await self.probe(by, LOOKS[0])
            await self.probe(by, LOOKS[1 + (number + len(self.events)) % (len(LOOKS) - 1)])

    # What must hold whatever the model says

    def violated(self, text):
        self.violations.append(f"at step {len(self.events) - 1}: {text}")

    def narrows(self, before, source, child):
        """R43: no session holds more than the token that it came of."""
        after = child.claims
        if not set(after["scope"].split()) <= set(before["scope"].split()):
            self.violated(f"{child.session} has the scope {after['scope']} of {before['scope']}")
        if after["auth_time"] > before["auth_time"]:
            self.violated(f"{child.session} is a younger proof than the token of {source}")

    def is_stood_by(self, session):
        """Whether no code and no offer let the session in, or somebody stood by it who may."""
        return session in self.stood_by or not any(member[0] in "qt" for member in self.came_of(session))

    def changes_who_gets_in(self, what, by, answer):
        """R43, R46: whom a code or an offer let in, and nobody stood by, changes nothing of who gets in."""
        if answer is not None and not self.is_stood_by(by.session):
            self.violated(f"{by.name} did {what} in {by.session}, which nobody stood by")
        if answer is not None and self.now - by.claims["auth_time"] * 1000 > 5 * 60_000 + 999:
            self.violated(f"{by.name} did {what} with a proof that is too old")

    def check_over(self, by, said):
        """R44: what came of what was ended is over, but for whom the one who ended it kept."""
        by.is_over = said == ENDED
        if by.is_over:
            return
        above = self.came_of(by.session) | {by.session}
        for root, keeper in self.revoked.items():
            # A sign-in by an independent proof afterwards is no descendant, and what a keeper made stays.
            if root in above and not (keeper and keeper in above):
                self.violated(f"{by.name} still gets {said} in {by.session}, which came of {root}")

