"""QR sign-in: one code, one sign-in, whoever races."""

import base64
import concurrent.futures
import json
import subprocess
import threading
import time

import grpc
import pytest
from latchkey.qr.v1 import qr_session_service_pb2 as pb
from world import refused


def confirmed(world):
    """A phone and a screen whose code the phone has agreed to."""
    phone, screen = world.account(), world.device(label="desktop")
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), code.check_code)
    return phone, screen


def test_handed_over_once(world):
    """S5: of many concurrent pollers all get the same one session, and no second one is made"""
    phone, screen = world.account(), world.device(label="desktop")
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        polls = [pool.submit(screen.poll, 10_000, 2) for _ in range(32)]
        time.sleep(0.2)
        phone.confirm(scan, code.check_code)
        answers = [poll.result(30) for poll in polls]
    with_tokens = [answer for answer in answers if answer.HasField("tokens")]
    assert with_tokens, "nobody got the tokens"
    assert len({answer.tokens.sid for answer in with_tokens}) == 1
    assert len({answer.tokens.refresh_token for answer in with_tokens}) == 1
    screen.remember(with_tokens[0])
    assert screen.introspect().sub == phone.subject.sub
    world.assert_alive()


def test_same_answer_again(world):
    """S5: the same poll again after a lost answer brings the same tokens"""
    _, screen = confirmed(world)
    first, again = screen.poll(), screen.poll()
    assert first.HasField("tokens") and first.tokens == again.tokens


def test_other_verifier(world):
    """S3: without the code verifier of its device nobody redeems a confirmed code"""
    _, screen = confirmed(world)
    verifier, screen.verifier = screen.verifier, "x" * 43
    with refused(grpc.StatusCode.INVALID_ARGUMENT, field="code_verifier"):
        screen.poll()
    screen.verifier = verifier
    assert screen.poll().HasField("tokens"), "a wrong verifier burnt the code"


def test_content_is_no_secret(world):
    """R31: what the code shows collects nothing"""
    _, screen = confirmed(world)
    payload = screen.code.qr_payload
    for text in (payload, payload.rsplit("/", 1)[1], screen.code.user_code):
        with pytest.raises(grpc.RpcError) as error:
            world.qr.PollSession(
                pb.PollSessionRequest(device_code=text, code_verifier=screen.verifier), timeout=10
            )
        assert error.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)


def test_scan_is_not_confirm(world):
    """S7: a scan alone signs nobody in"""
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    phone.scan(code.qr_payload)
    answer = screen.poll()
    assert answer.state == pb.SESSION_STATE_SCANNED and not answer.HasField("tokens")


def test_confirmer_is_scanner(world):
    """S7: who scanned confirms, and nobody else"""
    phone, other, screen = world.account(), world.account(), world.device()
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    with pytest.raises(grpc.RpcError) as error:
        other.confirm(scan, code.check_code)
    assert error.value.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED)
    phone.confirm(scan, code.check_code)
    assert screen.poll().subject.sub == phone.subject.sub


def test_guests_confirm_nothing(world):
    """S11: a guest may not sign a screen in"""
    guest, screen = world.device(), world.device()
    guest.start_as_guest()
    code = screen.issue_qr()
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        scan = guest.scan(code.qr_payload)
        guest.confirm(scan, code.check_code)


def test_deny_is_final(world):
    """R33: a refusal is final, for the screen and for the phone"""
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    scan = phone.scan(code.qr_payload)
    phone.deny(scan)
    with pytest.raises(grpc.RpcError):
        phone.confirm(scan, code.check_code)
    try:
        answer = screen.poll()
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.PERMISSION_DENIED
    else:
        assert answer.state == pb.SESSION_STATE_DENIED and not answer.HasField("tokens")


def test_waiting_poll_wakes(world):
    """Q7: a waiting poll is answered when something happens, not when its time is over"""
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    first = screen.poll()
    times = []

    def wait():
        answer = screen.poll(wait_ms=20_000, last_version=first.version)
        times.append((time.monotonic(), answer))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    scanned = time.monotonic()
    phone.scan(code.qr_payload)
    thread.join(25)
    woken, answer = times[0]
    assert answer.state == pb.SESSION_STATE_SCANNED
    # Its time would have been 20 s.
    assert woken - scanned < 10


def test_picture_and_camera(world, cli, tmp_path):
    """Q1: zbarimg reads the picture that the command-line tool writes, as a phone's camera would"""
    picture = tmp_path / "code.png"
    offer = cli(world, "desktop", "qr", "issue", "--png", str(picture), "--svg", str(tmp_path / "code.svg"))
    read = subprocess.run(["zbarimg", "--quiet", "--raw", str(picture)], capture_output=True, text=True, timeout=20)
    assert read.stdout.strip() == offer["qr_payload"]
    assert "<svg" in (tmp_path / "code.svg").read_text()
    # What is in the picture is enough for a phone, and for nothing else.
    phone = world.account()
    scan = phone.scan(read.stdout.strip())
    waiting = cli.start(world, "desktop", "qr", "wait")
    phone.confirm(scan, offer["check_code"])
    said, complaint = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, said + complaint
    assert cli(world, "desktop", "session")["session"]["sub"] == phone.subject.sub


def test_ids_stand_side_by_side(own_world):
    """Ids of sessions that are made one after the other share cell, instance and four random bytes, and nothing else"""
    for _ in range(3):
        own_world.device().issue_qr()
    log = own_world.fleet["qr"].log_path.read_text().splitlines()
    events = [json.loads(line) for line in log if '"qr.issued"' in line]
    ids = [base64.urlsafe_b64decode(event["qr_session_id"] + "==") for event in events]
    assert len(ids) == 3 and all(len(each) == 16 for each in ids)
    assert len({each[:8] for each in ids}) == 1, "each session changes a page of its own in storage"
    assert len({each[8:] for each in ids}) == 3
    assert ids[0][4:8] != bytes(4)
