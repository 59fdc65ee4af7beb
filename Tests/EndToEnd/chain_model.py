"""What each actor of a chain may do: a small model of authority, which says of every step what the services answer.

A chain is judged by walking the model through what happened. Each rule can be left out: a model without it must disagree
with the services somewhere, or the rule is said nowhere.
"""

import dataclasses

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
ACCESS, RECENT, OFFER, IDLE = 15 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * DAY
# How long a session lives at most, by how it began.
LONGEST = {"qr": 30 * DAY, "transfer": 90 * DAY, "proof": 90 * DAY}
EVERYTHING = frozenset({"basic", "profile", "account"})
SCREEN = frozenset({"basic", "profile"})
ENDED = "ended"

RULES = {
    "scope-narrows": "what is handed on has at most its source's scope",
    "proof-stays-old": "what is handed on is as old a proof as its source",
    "token-stays-old": "what a token of before a step-up hands on is as old a proof as the token",
    "newest-proof": "an offer is made with a token of the session's last proof",
    "proof-of-then": "what was offered before a step-up is no offer on its proof",
    "code-is-unconfirmed": "what a code or an offer began is nobody's word for itself",
    "place-is-confirmed": "who takes the place of a confirmed session is confirmed",
    "end-stays": "what is handed on ends no later than its source",
    "bound-key-is-no-proof": "a key that a code bound brings back what the code gave, and no more",
    "scope": "a method asks for its word of the scope",
    "recent-proof": "what changes who gets in asks for a proof of the last minutes",
    "confirmed": "what changes who gets in asks for a confirmed session",
    "step-up-proves": "a step-up is a proof of now",
    "step-up-confirms": "who steps up stands by the session",
    "own-making": "what came of a session's code proves nothing in it",
    "step-up-leaves-behind": "who has the refresh token of before a step-up is left behind",
    "say-so": "an owner's word confirms a session",
    "refresh-once": "a refresh token that was used ends its session",
    "parent-again": "the token before the newest brings the newest again",
    "reuse-takes-along": "with a session that was ended for reuse ends what came of it",
    "revoke-takes-along": "with a revoked session ends what came of it",
    "revoke-takes-credentials": "credentials too",
    "revoke-takes-device": "nothing on the device of a revoked session lets anybody in",
    "revoker-stays": "who revokes stays, with what came of theirs",
    "code-takes-along": "with a code ends what came of it",
    "log-out-leaves": "what came of a session that logs out lives on",
    "others-take-keys": "with the others end the keys of their devices",
    "global-takes-keys": "with all sessions end all keys",
    "one-session-a-device": "a sign-in takes the place of what was on its device",
    "old-place-ends": "an offer that gives a place away ends who made it",
    "chain-is-long": "what came of something came of all that that came of",
    "idle": "a session that nobody uses ends",
    "longest": "a session ends one day, however it is renewed",
    "access-is-short": "an access token holds for minutes",
    "key-is-needed": "bound tokens are nothing without their key",
    "device-is-needed": "only a device that has shown a key enrols one",
    "offer-ends": "an offer ends",
    "offer-once": "an offer is good once",
    "offer-of-the-living": "an offer ends with who made it",
    "rotation-hands-down": "what a rotated key came of, the new one came of",
    "rotation-retires": "the key before a rotation lets nobody in any more",
    "rotation-takes-sessions": "the sessions of a device go on under its new key",
    "newest-offer": "a session's newer offer voids the one before",
    "signature": "the signature of an owner's device key stands for a step-up where a code is confirmed",
    "signature-of-the-let-in": "that of a device which was let in does not, before its owner stepped up there",
}


@dataclasses.dataclass
class Session:
    scope: frozenset
    proven: int
    confirmed: bool
    method: str
    expiry: int
    idle: int
    began: int
    rotated: int
    key: str | None = None
    device: str | None = None
    ancestors: frozenset = frozenset()
    generation: int = 1
    over: bool = False


@dataclasses.dataclass
class Credential:
    device: str
    ancestors: frozenset
    # What a code bound it with.
    source: Session | None = None
    removed: bool = False


@dataclasses.dataclass
class Tokens:
    """What somebody holds of a session: an access token as it was made, and refresh tokens."""

    session: str
    proven: int
    confirmed: bool
    expires: int
    generations: list
    key: str | None


@dataclasses.dataclass
class Offer:
    session: str
    made: int
    gone: bool = False


class Model:
    def __init__(self, without=()):
        assert set(without) <= set(RULES), f"no such rule: {set(without) - set(RULES)}"
        self.without = frozenset(without)
        self.sessions, self.credentials, self.tokens, self.offers, self.codes = {}, {}, {}, {}, {}
        self.now = 0

    def rule(self, name):
        return name not in self.without

    def predict(self, event):
        """What the services answer, as a set of answers that are all right; the model goes on as if they had."""
        self.now = event.at
        answer = getattr(self, event.op.replace("-", "_"))(**event.args)
        if answer == ENDED and event.lags:
            # Another service hears of an end a moment later, and may say something else before it refuses.
            return None
        return answer

    # What a session is

    def lives(self, name):
        session = self.sessions[name]
        return not session.over and not (self.rule("idle") and self.now >= session.idle)

    def renew(self, session):
        session.rotated, session.idle = self.now, self.now + IDLE
        if self.rule("longest"):
            session.idle = min(session.idle, session.expiry)

    def refusal(self, by, word=None, recent=False, confirmed=False, told=True):
        """Why a call with these tokens is refused; None lets it through."""
        tokens = self.tokens[by]
        session = self.sessions[tokens.session]
        if (self.rule("access-is-short") and self.now >= tokens.expires) or not self.lives(tokens.session):
            return ENDED
        if self.rule("key-is-needed") and session.key and tokens.key != session.key:
            return "invalid_dpop_proof"
        if word and self.rule("scope") and word not in session.scope:
            return "INSUFFICIENT_SCOPE"
        if recent and self.rule("recent-proof") and self.now - tokens.proven > RECENT:
            return "STEP_UP_REQUIRED"
        if confirmed and self.rule("confirmed") and not (tokens.confirmed or (told and session.confirmed)):
            return "SESSION_UNCONFIRMED"
        return None

    def owners_word(self, by):
        return self.refusal(by, "account", recent=True, confirmed=True)

    def tokens_of(self, name):
        """As an answer with tokens of this session is written down: their scope, proof, and how long they may be renewed."""
        session = self.sessions[name]
        return f"ok {' '.join(sorted(session.scope))}, proof {session.proven // 1000}, until {session.idle // 1000}"

    def hold(self, name, session, key):
        state = self.sessions[session]
        self.tokens[name] = Tokens(session, state.proven, state.confirmed, self.now + ACCESS, [state.generation], key)

    def begin(self, name, holder, **fields):
        session = self.sessions[name] = Session(began=self.now, rotated=self.now, idle=0, **fields)
        self.renew(session)
        self.hold(holder, name, session.key)

    def proven(self, name, holder, device=None, ancestors=frozenset()):
        self.begin(
            name, holder, scope=EVERYTHING, proven=self.now, confirmed=True, method="proof",
            expiry=self.now + LONGEST["proof"], device=device, ancestors=ancestors,
        )  # fmt: skip

    def came_of(self, *sources):
        """Each of these, and all that they came of."""
        ancestors = set(sources)
        if self.rule("chain-is-long"):
            for source in sources:
                if source in self.sessions:
                    ancestors |= self.sessions[source].ancestors
        return frozenset(ancestors)

    def derived(self, source, asked, method, takes_place=False):
        scope = source.scope if asked is None else asked & source.scope if self.rule("scope-narrows") else asked
        limit = self.now + LONGEST[method]
        confirmed = takes_place and source.confirmed and self.rule("place-is-confirmed")
        return {
            "scope": scope,
            "proven": source.proven if self.rule("proof-stays-old") else self.now,
            "confirmed": confirmed or (not takes_place and not self.rule("code-is-unconfirmed")),
            "method": method,
            "expiry": min(source.expiry, limit) if self.rule("end-stays") else limit,
        }

    def end_descendants(self, root, keeper=None):
        def stays(name, ancestors):
            return keeper and self.rule("revoker-stays") and (name == keeper or keeper in ancestors)

        for name, session in self.sessions.items():
            if root in session.ancestors and not stays(name, session.ancestors):
                session.over = True
        for name, credential in self.credentials.items():
            if root in credential.ancestors and self.rule("revoke-takes-credentials") and not stays(name, credential.ancestors):
                credential.removed = True

    def clear_device(self, device):
        for credential in self.credentials.values():
            if credential.device == device:
                credential.removed = True

    # Steps

    def setup(self, session, holder, device, credential):
        self.proven(session, holder, device)
        self.credentials[credential] = Credential(device, self.came_of(session))
        return "ok"

    def password(self, session, holder):
        self.proven(session, holder)
        return self.tokens_of(session)

    def may_confirm(self, by, lets_in, signed):
        tokens = self.tokens[by]
        session = self.sessions[tokens.session]
        asked = self.refusal(by, "account", confirmed=True, told=False)
        if asked:
            return asked
        # A signature that is sent has to hold, needed or not.
        let_in = any(member[0] in "qt" for member in session.ancestors) and session.proven <= session.began
        if signed and let_in and self.rule("signature-of-the-let-in"):
            return "REAUTH_PROOF_INVALID"
        if not lets_in or (signed and self.rule("signature")):
            return None
        return self.refusal(by, "account", recent=True, confirmed=True, told=False)

    def login(self, by, scope, session, holder, code, key, signed):
        asked = frozenset(scope.split())
        refusal = self.may_confirm(by, "account" in asked, signed)
        return refusal or self.granted(by, asked, "qr", session, holder, code, key)

    def bind(self, by, scope, session, holder, code, key, signed):
        refusal = self.may_confirm(by, True, signed)
        if refusal:
            return refusal
        self.granted(by, frozenset(scope.split()), "qr", session, holder, code, key)
        begun = self.sessions[session]
        self.credentials[key] = Credential(key, self.came_of(code, self.tokens[by].session), dataclasses.replace(begun))
        # The binding ends with who agreed, not with the session that it began.
        self.credentials[key].source.expiry = self.sessions[self.tokens[by].session].expiry
        self.codes[code].append(key)
        return self.tokens_of(session)

    def move(self, by, scope, session, holder, code, key, signed):
        refusal = self.may_confirm(by, True, signed)
        return refusal or self.granted(by, frozenset(scope.split()), "transfer", session, holder, code, key)

    def granted(self, by, asked, method, session, holder, code, key):
        source = self.tokens[by].session
        derived = self.derived(self.sessions[source], asked, method)
        if self.rule("token-stays-old"):
            derived["proven"] = min(derived["proven"], self.tokens[by].proven)
        self.begin(session, holder, **derived, key=key, device=key, ancestors=self.came_of(code, source))
        self.codes[code] = [session]
        return self.tokens_of(session)

    def offer(self, by, offer):
        refusal = self.owners_word(by)
        if refusal:
            return refusal
        session = self.tokens[by].session
        if self.rule("newest-proof") and self.tokens[by].proven // 1000 < self.sessions[session].proven // 1000:
            return ENDED
        if self.rule("newest-offer"):
            for earlier in self.offers.values():
                earlier.gone |= earlier.session == session
        self.offers[offer] = Offer(session, self.now)
        return "ok"

    def redeem(self, offer, keep, session, holder, device):
        made = self.offers[offer]
        if made.gone or (self.rule("offer-ends") and self.now >= made.made + OFFER):
            return "TRANSFER_NOT_FOUND"
        if self.rule("offer-of-the-living") and not self.lives(made.session):
            return "TRANSFER_NOT_FOUND"
        made.gone = self.rule("offer-once")
        source = self.sessions[made.session]
        ancestors = self.came_of(offer, made.session)
        derived = self.derived(source, None, "transfer", takes_place=not keep)
        if not keep and self.rule("old-place-ends"):
            self.replace_on(source.device)
            source.over = True
        self.begin(session, holder, **derived, device=device, ancestors=ancestors)
        return self.tokens_of(session)

    def replace_on(self, device):
        for session in self.sessions.values():
            if device and session.device == device:
                session.over = True

    def enrol(self, by, credential):
        refusal = self.owners_word(by)
        if refusal:
            return refusal
        session = self.tokens[by].session
        device = self.sessions[session].device
        if not device and self.rule("device-is-needed"):
            return "DEVICE_KEY_REQUIRED"
        self.credentials[credential] = Credential(device, self.came_of(session))
        return "ok"

    def rotate(self, by, key):
        refusal = self.refusal(by)
        if refusal:
            return refusal
        old = self.sessions[self.tokens[by].session].device
        if self.rule("rotation-takes-sessions"):
            for session in self.sessions.values():
                if session.device == old and not session.over:
                    session.device, session.key = key, key if session.key == old else session.key
        for tokens in self.tokens.values():
            tokens.key = key if tokens.key == old else tokens.key
        for credential in self.credentials.values():
            if credential.device == old and not credential.source:
                credential.device = key
        bound = self.credentials.get(old)
        if bound and bound.source:
            hands_down = self.rule("rotation-hands-down")
            ancestors = bound.ancestors if hands_down else frozenset()
            self.credentials[key] = dataclasses.replace(bound, device=key, ancestors=ancestors)
            bound.removed |= self.rule("rotation-retires")
            for came in self.codes.values():
                if hands_down and old in came:
                    came.append(key)
        return "ok"

    def found(self, credential):
        """The credential, unless nobody gets in by it any more."""
        found = self.credentials[credential]
        ended = found.source and self.rule("end-stays") and self.now >= found.source.expiry
        return None if found.removed or ended else found

    def key(self, credential, session, holder):
        found = self.found(credential)
        if not found:
            return "INVALID_CREDENTIALS"
        if self.rule("one-session-a-device"):
            self.replace_on(found.device)
        if not found.source or not self.rule("bound-key-is-no-proof"):
            self.proven(session, holder, found.device, found.ancestors)
            return self.tokens_of(session)
        source = found.source
        self.begin(
            session, holder, scope=source.scope, proven=source.proven, confirmed=False, method="qr",
            expiry=min(source.expiry, self.now + LONGEST["qr"]), key=credential, device=found.device,
            ancestors=found.ancestors,
        )  # fmt: skip
        return self.tokens_of(session)

    def step_up(self, by, credential):
        """`credential` is None for the account's password."""
        refusal = self.refusal(by)
        if refusal:
            return refusal
        name = self.tokens[by].session
        session = self.sessions[name]
        if credential:
            found = self.found(credential)
            if not found:
                return "INVALID_CREDENTIALS"
            let_in = {member for member in session.ancestors if member[0] in "qt"}
            made = found.ancestors
            is_own = bool(let_in) and (name in made or bool(let_in & made))
            if self.rule("own-making") and (found.source or is_own):
                return "CREDENTIAL_NOT_INDEPENDENT"
        if self.rule("step-up-proves"):
            session.proven = self.now
        if self.rule("proof-of-then"):
            for offer in self.offers.values():
                offer.gone |= offer.session == name
        if self.rule("step-up-confirms"):
            session.confirmed = True
        session.generation += 2 if self.rule("step-up-leaves-behind") else 0
        self.renew(session)
        self.hold(by, name, self.tokens[by].key)
        return self.tokens_of(name)

    def say(self, by, session):
        refusal = self.owners_word(by)
        if refusal:
            return refusal
        if not self.lives(session):
            return "SESSION_NOT_FOUND"
        self.sessions[session].confirmed |= self.rule("say-so")
        return "ok"

    def revoke(self, by, session):
        own = self.tokens[by].session
        refusal = self.refusal(by) if own == session else self.owners_word(by)
        if refusal:
            return refusal
        target, mine = self.sessions[session], self.sessions[own]
        if own != session and target.device and target.device != mine.device and self.rule("revoke-takes-device"):
            self.clear_device(target.device)
        target.over = True
        if self.rule("revoke-takes-along"):
            self.end_descendants(session, None if own == session else own)
        return "ok"

    def others(self, by):
        refusal = self.owners_word(by)
        if refusal:
            return refusal
        own = self.tokens[by].session
        device = self.sessions[own].device
        for credential in self.credentials.values():
            credential.removed |= self.rule("others-take-keys") and (not device or credential.device != device)
        for name, session in self.sessions.items():
            session.over |= name != own
        return "ok"

    def logout(self, by):
        refusal = self.refusal(by)
        if refusal:
            return refusal
        own = self.tokens[by].session
        self.sessions[own].over = True
        if not self.rule("log-out-leaves"):
            self.end_descendants(own)
        return "ok"

    def everywhere(self, by):
        refusal = self.owners_word(by)
        if refusal:
            return refusal
        for credential in self.credentials.values():
            credential.removed |= self.rule("global-takes-keys")
        for session in self.sessions.values():
            session.over = True
        return "ok"

    def report(self, code):
        began, *bound = self.codes[code]
        for key in bound:
            if not self.credentials[key].removed:
                self.clear_device(key)
                self.replace_on(key)
        self.sessions[began].over = True
        if self.rule("code-takes-along"):
            self.end_descendants(code)
        return "ok"

    def refresh(self, by, number=-1):
        """`number` counts from the newest refresh token that the holder has."""
        tokens = self.tokens[by]
        session = self.sessions[tokens.session]
        if self.rule("key-is-needed") and session.key and tokens.key != session.key:
            return "invalid_dpop_proof"
        if not self.lives(tokens.session):
            return ENDED
        shown = tokens.generations[number]
        is_parent = shown == session.generation - 1 and self.now <= session.rotated + DAY
        if shown == session.generation:
            session.generation += 1
            self.renew(session)
        elif not (is_parent and self.rule("parent-again")) and self.rule("refresh-once"):
            session.over = True
            if self.rule("reuse-takes-along"):
                self.end_descendants(tokens.session)
            return ENDED
        tokens.generations.append(session.generation)
        tokens.proven, tokens.confirmed, tokens.expires = session.proven, session.confirmed, self.now + ACCESS
        return self.tokens_of(tokens.session)

    def steal(self, by, holder, whole):
        tokens = self.tokens[by]
        self.tokens[holder] = dataclasses.replace(tokens, generations=list(tokens.generations) if whole else [], key=None)
        return "ok"

    def probe(self, by, word, recent, confirmed):
        return self.refusal(by, word, recent, confirmed) or "ok"

    # What the other services know, they know from the token.
    def probe_elsewhere(self, by, word, recent, confirmed):
        return self.refusal(by, word, recent, confirmed, told=False) or "ok"

    def clock(self, seconds):
        return "ok"


@dataclasses.dataclass
class Event:
    """A step as it went: when, by what, and the services' answer. `lags` where the answer is by a service that hears of
    ends a moment later."""

    at: int
    op: str
    args: dict
    answer: str
    lags: bool = False
    # The reason in the services' words, where the model has one word for several.
    said: str = ""

    def __str__(self):
        given = " ".join(f"{name}={value}" for name, value in self.args.items())
        said = f" ({self.said})" if self.said not in ("", self.answer) else ""
        return f"{self.at / 1000:>12.0f} s  {self.op:<15} {given}  ->  {self.answer}{said}"


def disagreement(events, without=()):
    """The first event that the model would have answered otherwise, with its answer; None where they agree."""
    model = Model(without)
    for number, event in enumerate(events):
        expected = model.predict(event)
        if expected is None and event.answer.startswith("ok"):
            return number, ENDED
        if expected is not None and expected != event.answer:
            return number, expected
    return None
