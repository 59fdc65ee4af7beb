"""Plays the whole product once, with every real part in place: `make run`.

Starts the three services on loopback, and does with the command-line tool what people do: use an app as a guest, sign
up, sign in on a second phone that has data of its own, take that data along, and sign a desktop in by its QR code.

    ONCE=1          stop after the story, and exit with its status (else the services run until Ctrl-C)
    DATA_DIR=path   keep the services' data there (else a fresh folder under .latchkey/)
"""

import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import cryptography.hazmat.primitives.serialization
import grpc
import joserfc.jwk
import joserfc.jwt
import jwt

import proofs
import services
import story_records

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Not the one of README's commands, which work beside the story's services.
IDENTIFIER = "ada.lovelace@example.com"
PASSWORD = "correct horse battery staple"
# An account may keep so many downloads (sharing one account among many people is limited in this way).
DOWNLOADS_ALLOWED = 600
# What a token answers whose session ended, as the guest's does when it becomes part of an account.
GONE = "SESSION_REVOKED"


class StoryError(Exception):
    """Something in the story did not go as it must."""


def expect(condition, what):
    if not condition:
        raise StoryError(what)


def until(condition, what, seconds=30):
    """What `condition` returns once that is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        expect(time.monotonic() < deadline, what)
        time.sleep(0.1)
    return found


class Story:
    def __init__(self, fleet, executable, folder):
        self.fleet = fleet
        self.executable = executable
        self.folder = folder
        self.started = time.monotonic()
        self.steps = 0

    # Telling it.

    def step(self, text):
        """Prints a step when the block is done, with the time it took."""
        return Step(self, text)

    def command(self, profile, *words):
        command = [str(self.executable), *words, "--profile", profile, "--state-dir", str(self.folder / "profiles")]
        for name in services.NAMES:
            command += [f"--{name}", self.fleet[name].address]
        return command

    def run(self, profile, *words, status=0, stdin=None):
        """One command of one device; its JSON answer."""
        finished = subprocess.run(
            self.command(profile, *words, "--json"),
            input=stdin, capture_output=True, text=True, timeout=120, env=services.clean_environment(),
        )  # fmt: skip
        said = f"latchkey {' '.join(words)} ended with {finished.returncode}: {finished.stdout}{finished.stderr}"
        expect(finished.returncode == status, said)
        return json.loads(finished.stdout)

    def start(self, profile, *words):
        return subprocess.Popen(
            self.command(profile, *words, "--json"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=services.clean_environment(), start_new_session=True,
        )  # fmt: skip

    # The story.

    def play(self):
        self.first_phone()
        self.second_phone()
        self.desktop()

    def put(self, profile, visit):
        lines = "".join(json.dumps(row) + "\n" for row in story_records.records(visit))
        written = self.run(profile, "record", "put", stdin=lines)["written"]
        expect(written == lines.count("\n"), f"{written} of {lines.count(chr(10))} records were stored")
        return written

    def collections(self, profile):
        answer = self.run(profile, "record", "collections")
        return {collection["name"]: collection["count"] for collection in answer["collections"]}

    def first_phone(self):
        with self.step("The phone starts as a guest with a fresh key") as step:
            guest = self.run("phone", "guest", "--label", "Ada's phone")
            expect(guest["created"] and guest["session"]["is_guest"], "the guest is not new")
            again = self.run("phone", "guest", "--label", "Ada's phone")
            expect(not again["created"], "the same key made a second guest")
            expect(again["session"]["sub"] == guest["session"]["sub"], "the same key found another guest")
            step.says("started twice, one guest")
        with self.step("The guest uses the app: films watched, liked, bought, downloaded") as step:
            step.says(f"{self.put('phone', 1)} records in {len(self.collections('phone'))} collections")
        with self.step("The phone registers") as step:
            self.sign_up(step, guest["session"]["sub"])

    def sign_up(self, step, guest):
        words = ("register", IDENTIFIER, "--password-file", "-", "--nickname", "Ada")
        finished = subprocess.run(
            self.command("phone", *words, "--json"),
            input=PASSWORD + "\n", capture_output=True, text=True, timeout=60, env=services.clean_environment(),
        )  # fmt: skip
        answer = json.loads(finished.stdout)
        if finished.returncode != 0 and answer["error"]["reason"] == "IDENTITY_IN_USE":
            # The data directory has seen this story before: the account is there, and the guest's data joins it.
            self.sign_in_and_merge("phone")
            step.says("the account is from an earlier run: signed in, and the guest's data merged")
            return
        expect(finished.returncode == 0, finished.stdout)
        expect(answer["account_change"]["promoted"], "the guest was not promoted")
        expect(answer["session"]["sub"] == guest, "the account is not the guest that it was made of")
        rows = self.collections("phone")
        expect(sum(rows.values()) == 3000, f"the account has {rows}")
        step.says(f"the guest became the account, its {sum(rows.values())} records with it")

    def sign_in_and_merge(self, profile):
        words = ("login", IDENTIFIER, "--password-file", "-", "--on-conflict", "merge")
        return self.merge(profile, *words, stdin=PASSWORD + "\n")

    def merge(self, profile, *words, stdin=None):
        """The merge that a sign-in asks for, followed to its end."""
        began = time.time()
        change = self.run(profile, *words, stdin=stdin)["account_change"]
        expect(change["migration_id"] or change["migration_pending"], "no merge was started")
        late = [] if change["migration_id"] else [until(lambda: self.newest_merge(profile, began), "the merge does not begin")]
        merge = self.run(profile, "migrate", "watch", *late)
        expect(merge["state"] == "done", f"the merge is {merge['state']}: {merge['failure']}")
        return merge

    def newest_merge(self, profile, since):
        """One that the migrator was late for begins by itself; the account may have others from earlier runs."""
        for merge in self.run(profile, "migrate", "list")["merges"]:
            if datetime.datetime.fromisoformat(merge["created_at"]).timestamp() >= since:
                return merge["migration_id"]
        return None

    def second_phone(self):
        with self.step("A second phone starts as a guest, and is used for a while") as step:
            started = self.run("phone-2", "guest", "--label", "Ada's new phone")
            expect(started["created"], "the second phone's guest is not new")
            written = self.put("phone-2", 2)
            guest = Holder(self, "phone-2")
            # What it holds opens the guest's records now, so that it means something when it no longer does.
            expect(guest.refusal() is None, f"the guest's own call is refused: {guest.refusal()}")
            step.says(f"{written} records")
        with self.step("It signs in to the account: a conflict, and nobody is signed in") as step:
            words = ("login", IDENTIFIER, "--password-file", "-")
            # It does not wait for a migrator that is late, and tells of no rows then.
            for _ in range(5):
                conflict = self.run("phone-2", *words, status=2, stdin=PASSWORD + "\n")["conflict"]
                if conflict["guest_rows"]:
                    break
            expect(sum(conflict["guest_rows"].values()) == written, f"the guest has {conflict['guest_rows']}")
            expect("merge" in conflict["choices"], f"the choices are {conflict['choices']}")
            expect(self.run("phone-2", "session")["state"] == "guest", "the report signed somebody in")
            step.says(f"{conflict['existing_mask']} exists; choices: {', '.join(conflict['choices'])}")
        with self.step("Ada chooses to merge; the guest's data moves") as step:
            merge = self.merge("phone-2", "login", "--ticket", conflict["link_ticket"], "--on-conflict", "merge")
            step.says(f"{merge['total']} records")
        self.tell(merge)
        with self.step("The guest's records are gone, and its token opens nothing") as step:
            self.check_merge(merge, written)
            refusal = guest.last_refusal()
            expect(refusal == GONE, f"the guest's token with a fresh proof is answered by {refusal}, not {GONE}")
            step.says(f"even with a fresh proof by its key: {refusal}")

    def tell(self, merge):
        names = ("moved", "kept", "replaced", "summed", "refused")
        print(f"\n      {'collection':<12}{'policy':<14}{''.join(f'{name:>10}' for name in names)}{'now':>8}")
        for row in merge["report"]:
            numbers = "".join(f"{row[name]:>10}" for name in names)
            print(f"      {row['name']:<12}{row['policy'] or '?':<14}{numbers}{row['target_count']:>8}")
        print()

    def check_merge(self, merge, written):
        names = ("moved", "kept", "replaced", "summed", "refused")
        told = sum(row[name] for row in merge["report"] for name in names)
        expect(told == written, f"the report tells of {told} of {written} records")
        now = self.collections("phone-2")
        said = {row["name"]: row["target_count"] for row in merge["report"]}
        expect(now == said, f"the account holds {now}, the report says {said}")

    def desktop(self):
        picture = self.folder / "code.png"
        with self.step("The desktop asks for a QR code") as step:
            words = ("qr", "issue", "--label", "Ada's desktop", "--png", str(picture), "--svg", str(picture.with_suffix(".svg")))
            offer = self.run("desktop", *words)
            step.says(f"{offer['expires_in_ms'] // 1000} s to scan it; user code {offer['user_code']}")
        drawn = subprocess.run(
            [str(self.executable), "qr", "draw", offer["qr_payload"]],
            capture_output=True, text=True, timeout=10, env=services.clean_environment(),
        )  # fmt: skip
        expect(drawn.returncode == 0, drawn.stderr)
        print("\n" + "".join(f"      {line}\n" for line in drawn.stdout.splitlines()))
        waiting = self.start("desktop", "qr", "wait")
        try:
            self.scan_and_confirm(picture, offer)
            with self.step("The desktop's waiting poll returns tokens of its own") as step:
                said, _ = waiting.communicate(timeout=60)
                expect(waiting.returncode == 0, f"qr wait ended with {waiting.returncode}: {said}")
                desktop = json.loads(said)["sign_in"]["session"]
                phone = self.run("phone-2", "session")["session"]
                expect(desktop["sub"] == phone["sub"], "the desktop is signed in as somebody else")
                expect(desktop["sid"] != phone["sid"], "the desktop shares the phone's session")
                step.says("the same account, another session")
        finally:
            if waiting.poll() is None:
                waiting.kill()
                waiting.wait()
        with self.step("The tokens verify against the published keys") as step:
            step.says(self.verify("desktop", desktop["sub"]))

    def scan_and_confirm(self, picture, offer):
        with self.step("A camera reads the picture") as step:
            read = subprocess.run(["zbarimg", "--quiet", "--raw", str(picture)], capture_output=True, text=True, timeout=20)
            content = read.stdout.strip()
            expect(content == offer["qr_payload"], f"zbarimg read {content!r}")
            step.says(f"zbarimg: {content}")
        with self.step("The phone scans it, and shows who asks") as step:
            scan = self.run("phone-2", "qr", "scan", content)
            expect(scan["initiator"]["label"] == "Ada's desktop", f"the phone shows {scan['initiator']}")
            step.says(f"{scan['initiator']['label']}, network {scan['network'] or 'unknown'}")
        with self.step("Ada agrees on the phone"):
            words = ["qr", "confirm"]
            if scan["needs_check_code"]:
                words += ["--check-code", offer["check_code"]]
            self.run("phone-2", *words)

    def verify(self, profile, sub):
        token = self.run(profile, "session", "token")["access_token"]
        with urllib.request.urlopen(f"{self.fleet.issuer}/.well-known/jwks.json", timeout=10) as answer:
            published = json.load(answer)
        key_id = jwt.get_unverified_header(token)["kid"]
        key = next(key for key in published["keys"] if key["kid"] == key_id)
        by_pyjwt = jwt.decode(
            token, jwt.PyJWK(key).key, algorithms=["ES256"], issuer=self.fleet.issuer, options={"verify_aud": False}
        )
        keys = joserfc.jwk.KeySet.import_key_set(published)
        by_joserfc = joserfc.jwt.decode(token, keys, algorithms=["ES256"]).claims
        expect(by_pyjwt == by_joserfc, "PyJWT and joserfc read different claims")
        expect(by_pyjwt["sub"] == sub, "the token is for somebody else")
        status = self.run(profile, "session", "introspect")
        expect(status["active"] and status["sub"] == sub, "introspection says otherwise")
        return f"by PyJWT and joserfc; scopes: {by_pyjwt['scope']}"


class Holder:
    """Whoever holds a device's token and key, and so can make the proofs that the token is bound to."""

    def __init__(self, story, profile):
        self.address = story.fleet["migrator"].address
        self.token = story.run(profile, "session", "token")["access_token"]
        device = json.loads((story.folder / "profiles" / profile / "device").read_text())
        self.key = cryptography.hazmat.primitives.serialization.load_pem_private_key(device["private_key"].encode(), None)

    def refusal(self):
        """Asks for the collections of the token's subject by a stock client: the reason of its refusal, if there is one."""
        with grpc.insecure_channel(self.address) as channel:
            try:
                answer = self.ask(channel)
            except grpc.RpcError as error:
                # A google.rpc.Status: with the messages generated from proto/ one would read it in full.
                details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
                return GONE if GONE.encode() in details else str(error)
        return None if answer else "no collections"

    def last_refusal(self, seconds=10):
        """The refusal once the migrator has heard from identity that the session ended; what it is by then, if it has not."""
        deadline = time.monotonic() + seconds
        while (refusal := self.refusal()) != GONE and time.monotonic() < deadline:
            time.sleep(0.1)
        return refusal

    def ask(self, channel, nonce=None):
        path = "/latchkey.migration.v1.RecordService/ListCollections"
        proof = proofs.make(self.key, f"http://{self.address}{path}", self.token, nonce)
        metadata = (("authorization", f"DPoP {self.token}"), ("dpop", proof))
        call = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        try:
            return call(b"", metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            # RFC 9449 section 8: where a nonce is wanted, the answer brings one.
            wanted = dict(error.trailing_metadata() or ()).get("dpop-nonce")
            if nonce or not wanted:
                raise
            return self.ask(channel, wanted)


class Step:
    def __init__(self, story, text):
        self.story, self.text, self.said = story, text, ""

    def says(self, text):
        self.said = text

    def __enter__(self):
        self.started = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print(f"  ✘ {self.text}", flush=True)
            return
        self.story.steps += 1
        milliseconds = 1000 * (time.monotonic() - self.started)
        print(f"  ✔ {self.text}: {self.said}" if self.said else f"  ✔ {self.text}", f"({milliseconds:.0f} ms)", flush=True)


def main():
    once = os.environ.get("ONCE", "") not in ("", "0")
    binaries = pathlib.Path(os.environ.get("BINARIES", ROOT / ".build" / "release"))
    folder = ROOT / ".latchkey" / time.strftime("story-%Y%m%d-%H%M%S")
    data = os.environ.get("DATA_DIR")
    fleet = services.Fleet(
        binaries, folder, data_directory=data, ports=services.choose_ports(prefer_defaults=True),
        arguments={
            # Whoever puts the services under load afterwards does so from this machine alone.
            "*": ["--dev"],
            "migrator": [
                "--migration-collections",
                f"history=NEWEST,favourites=UNION_BY_KEY,cart=SUM,downloads=KEEP_TARGET:{DOWNLOADS_ALLOWED}",
            ]
        },
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    story = Story(fleet, binaries / "latchkey", folder)
    status = 0
    try:
        with story.step("The three services start") as step:
            apart = fleet.start()
            addresses = ", ".join(f"{name} {fleet[name].address}" for name in services.NAMES)
            step.says(f"{addresses}; ready within {apart * 1000:.0f} ms of each other")
        story.play()
        print(f"\nThe story took {time.monotonic() - story.started:.1f} s; all {story.steps} steps are as they should be.")
        print(f"Data: {fleet.data_directory}; logs: {folder}; picture: {folder / 'code.png'}")
        if not once:
            wait_for_interrupt(fleet)
    except KeyboardInterrupt:
        print()
    except (StoryError, services.StartError, subprocess.TimeoutExpired) as error:
        print(f"\nThe story failed: {error}", file=sys.stderr)
        for name in services.NAMES:
            print(f"\nThe end of {name}'s log:\n{fleet[name].log_tail(8)}", file=sys.stderr)
        status = 1
    finally:
        ended = fleet.stop()
        if any(code != 0 for code in ended.values()):
            print(f"A service did not stop as it should: {ended}", file=sys.stderr)
            status = status or 1
    return status


def wait_for_interrupt(fleet):
    print("\nThe services go on running. Try them in another terminal:\n")
    addresses = " ".join(f"--{name} {fleet[name].address}" for name in services.NAMES)
    defaults = fleet.ports == services.DEFAULT_PORTS
    print(f"  {os.path.relpath(fleet.binaries / 'latchkey')} guest{'' if defaults else ' ' + addresses}")
    print("\nCtrl-C stops them.", flush=True)
    while all(service.is_running() for service in fleet.services.values()):
        time.sleep(0.5)
    raise services.StartError("a service has ended by itself")


if __name__ == "__main__":
    sys.exit(main())
