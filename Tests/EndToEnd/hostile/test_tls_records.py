"""What a client may say below the application's sight holds no memory and runs nothing"""

import ssl
import time

import authority
import frames
import pytest
import tls_records
from target import serving
from tls_records import CERTIFICATE, CLIENT_HELLO, DATA, HANDSHAKE, KEY_UPDATE, message

OLD, NEW = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
GREETING = frames.PREFACE + frames.settings() + frames.settings(flags=frames.ACK)


@pytest.mark.parametrize(
    "sent",
    [message(CLIENT_HELLO, 131_000, b"\3\3"), message(CLIENT_HELLO, 70, b"\3\3" + bytes(68))],
    ids=["begun", "whole"],
)
def test_renegotiation(tls_target, tmp_path, sent):
    """RFC 9113 §9.2.1: another handshake of TLS 1.2 ends the connection, and has no room made for its hello"""
    with tls_records.Client(tls_target.port, tmp_path, OLD) as client:
        client.send(DATA, GREETING)
        client.send(HANDSHAKE, sent)
        assert client.is_ended()
    tls_target.call()


def test_part_of_a_key_update(tls_target, tmp_path):
    """RFC 8446 §4.6.3: five bytes that come in parts end the connection, and in one record they do not"""
    with tls_records.Client(tls_target.port, tmp_path, NEW) as client:
        client.send(DATA, GREETING)
        client.send(HANDSHAKE, message(KEY_UPDATE, 1))
        assert client.is_ended()
    with tls_records.Client(tls_target.port, tmp_path, NEW) as client:
        client.send(DATA, GREETING)
        client.send(HANDSHAKE, message(KEY_UPDATE, 1, b"\0"))
        assert not client.is_ended(within=1)


@pytest.mark.parametrize("version", [OLD, NEW], ids=["1.2", "1.3"])
def test_data_is_taken(tls_target, tmp_path, version):
    """The client of these tests is understood: a call that it encrypts is run"""

    def calls():
        lines = [line for line in tls_target.metric_lines() if "grpc_server_started_total" in line]
        return sum(float(line.split()[-1]) for line in lines)

    before = calls()
    with tls_records.Client(tls_target.port, tmp_path, version) as client:
        client.send(DATA, GREETING + frames.call(1))
        deadline = time.monotonic() + 5
        while calls() == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_long_certificate(qr_binary, tmp_path):
    """Where callers show certificates, one that says it has 100 KiB ends the connection before there is room for it"""
    files = authority.issue(tmp_path)
    arguments = [
        "--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key),
        "--tls-ca-file", str(files.authority), "--tls-caller-ca-file", str(files.authority),
        "--services-authentication", "certificate",
    ]  # fmt: skip
    with serving(qr_binary, tmp_path / "service", *arguments, authority=files.authority) as target:
        for length, is_ended in [(102_000, True), (20_000, False)]:
            with tls_records.Client(target.port, tmp_path, NEW, finishes=False) as client:
                client.send(HANDSHAKE, message(CERTIFICATE, length, b"\0"))
                # Others wait for what they say is to come, until the handshake has taken too long.
                assert client.is_ended(within=2) == is_ended
        target.call()
