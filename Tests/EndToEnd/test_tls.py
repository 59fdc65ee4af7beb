"""TLS as the real executables speak it: profiles, protocols, certificates that are replaced, services that prove themselves."""

import concurrent.futures
import ipaddress
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

import grpc
import pytest
from cryptography import x509

import authority
import services
from latchkey.identity.v1 import auth_service_pb2, grant_service_pb2, grant_service_pb2_grpc
from world import World, bearer, refused

NAMES = ("identity", "qr", "migrator")


def eventually(condition, seconds=20):
    """Waits for something that another process does by itself."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def presented(fleet, name="identity", ca=None, alpn=("h2",), maximum=None):
    """A handshake: (the DER of the certificate, ALPN's choice, the version)."""
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(list(alpn))
    if maximum is not None:
        context.maximum_version = maximum
    with socket.create_connection(("127.0.0.1", fleet.ports[name][0]), timeout=5) as raw:
        with context.wrap_socket(raw, server_hostname="localhost") as connection:
            return connection.getpeercert(binary_form=True), connection.selected_alpn_protocol(), connection.version()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_a_stock_client_resumes_its_session(tls_world, version):
    context = ssl.create_default_context(cafile=str(tls_world.authority))
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = context.maximum_version = version

    def ask(session=None):
        """Whether the handshake resumed, and the session for the next one, which 1.3 sends with the first answer."""
        with socket.create_connection(("127.0.0.1", tls_world.fleet.ports["identity"][0]), timeout=5) as raw:
            with context.wrap_socket(raw, server_hostname="localhost", session=session) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
                return connection.session_reused, connection.session

    resumed, session = ask()
    assert not resumed
    assert ask(session)[0]


@pytest.mark.parametrize("name", NAMES)
def test_R41_the_port_fits_mozillas_intermediate_profile(tls_world, name):
    """R41: the port fits mozillas intermediate profile"""
    scan = subprocess.run(
        [
            sys.executable, "-m", "sslyze",
            "--certinfo_ca_file", str(tls_world.authority),
            "--mozilla_config", "intermediate",
            tls_world.target(name),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert scan.returncode == 0, scan.stdout + scan.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_R41_cleartext_and_old_versions_are_refused(tls_world):
    """R41: cleartext and old versions are refused"""
    for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(str(tls_world.authority))
        # At security level 0 this client would speak them.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = version
        with socket.create_connection(("127.0.0.1", tls_world.fleet.ports["identity"][0]), timeout=5) as raw:
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(raw, server_hostname="localhost")
    with grpc.insecure_channel(tls_world.target("identity")) as channel:
        get_jwks = channel.unary_unary(
            "/latchkey.identity.v1.AuthService/GetJwks",
            request_serializer=auth_service_pb2.GetJwksRequest.SerializeToString,
            response_deserializer=auth_service_pb2.GetJwksResponse.FromString,
        )
        with pytest.raises(grpc.RpcError) as error:
            get_jwks(auth_service_pb2.GetJwksRequest(), timeout=5)
        assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    tls_world.assert_alive()


def test_the_protocol_is_chosen_by_alpn(tls_world):
    fleet, ca = tls_world.fleet, tls_world.authority
    assert presented(fleet, ca=ca, alpn=("h2", "http/1.1"))[1:] == ("h2", "TLSv1.3")
    assert presented(fleet, ca=ca, alpn=("http/1.1",))[1] == "http/1.1"
    assert presented(fleet, ca=ca, maximum=ssl.TLSVersion.TLSv1_2)[1:] == ("h2", "TLSv1.2")
    with pytest.raises(ssl.SSLError):
        presented(fleet, ca=ca, alpn=("spdy/3",))
    # gRPC over h2, the key set over HTTP/1.1, and a web page of the QR service.
    answer = tls_world.auth.GetJwks(auth_service_pb2.GetJwksRequest(), timeout=5)
    assert json.loads(answer.jwks_json) == tls_world.jwks()
    context = ssl.create_default_context(cafile=str(ca))
    with urllib.request.urlopen(f"https://{tls_world.target('qr')}/healthz", timeout=5, context=context) as page:
        assert page.status == 200


def test_a_person_signs_in_over_tls_through_all_three_services(tls_world):
    phone, screen = tls_world.account(), tls_world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), check_code=code.check_code)
    assert screen.poll(wait_ms=5000).tokens.access_token
    assert phone.collections() == {}


@pytest.fixture
def renewable(binaries, tmp_path):
    """The identity service alone, with certificate files that the test replaces."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    files = authority.issue(first)
    arguments = {"*": ["--tls-certificate-file", str(files.certificate), "--tls-key-file", str(files.key)]}
    fleet = services.Fleet(binaries, tmp_path / "fleet", arguments=arguments, tls=True)
    fleet["identity"].start()
    yield fleet, files, authority.issue(second)
    assert fleet["identity"].stop() == 0


def replace(old, new):
    """As certificate managers do it: another file under the same name."""
    for source, target in ((new.certificate, old.certificate), (new.key, old.key)):
        temporary = pathlib.Path(f"{target}.new")
        shutil.copy(source, temporary)
        os.replace(temporary, target)


def serves(fleet, files):
    try:
        return presented(fleet, ca=files.authority)[0] is not None
    except ssl.SSLError:
        return False


def errors(fleet):
    lines = fleet["identity"].log_path.read_text().splitlines()
    return [record for record in map(json.loads, (line for line in lines if line.startswith("{"))) if record["level"] == "error"]


def reasons(fleet):
    """Those that differ: what was found by SIGHUP may have been found by a look before it."""
    return {error["reason"] for error in errors(fleet)}


@pytest.mark.usefixtures("engine")
def test_a_renewed_certificate_is_served_without_a_restart(renewable):
    fleet, old, new = renewable
    assert serves(fleet, old) and not serves(fleet, new)
    ca = old.authority.read_bytes()
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(
        f"localhost:{fleet.ports['identity'][0]}", grpc.ssl_channel_credentials(ca), options
    ) as channel:
        get_jwks = channel.unary_unary(
            "/latchkey.identity.v1.AuthService/GetJwks",
            request_serializer=auth_service_pb2.GetJwksRequest.SerializeToString,
            response_deserializer=auth_service_pb2.GetJwksResponse.FromString,
        )
        assert get_jwks(auth_service_pb2.GetJwksRequest(), timeout=5).jwks_json
        replace(old, new)
        eventually(lambda: serves(fleet, new))
        # A connection that stood before goes on.
        assert get_jwks(auth_service_pb2.GetJwksRequest(), timeout=5).jwks_json
    assert errors(fleet) == []


@pytest.mark.usefixtures("engine")
def test_calls_go_on_while_certificates_are_renewed(renewable, tmp_path):
    """On connections that stand and on new ones, by files that change and by SIGHUP: not one call fails"""
    fleet, old, _ = renewable
    issuer = authority.Authority()
    renewals = [issuer.issue(tmp_path / f"renewal-{number}", "localhost") for number in range(4)]
    # Clients trust the authority of the certificate that is served first, and that of its successors.
    trust = ssl.create_default_context(cafile=str(old.authority))
    trust.load_verify_locations(str(renewals[0].authority))
    credentials = grpc.ssl_channel_credentials(old.authority.read_bytes() + renewals[0].authority.read_bytes())
    target = f"localhost:{fleet.ports['identity'][0]}"
    over, answered, seen = threading.Event(), [], set()

    def call_on_standing_connections():
        with grpc.secure_channel(target, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            get_jwks = channel.unary_unary("/latchkey.identity.v1.AuthService/GetJwks")
            while not over.is_set():
                answered.append(get_jwks(b"", timeout=10))

    def call_on_new_connections():
        while not over.is_set():
            with socket.create_connection(("127.0.0.1", fleet.ports["identity"][0]), timeout=10) as raw:
                with trust.wrap_socket(raw, server_hostname="localhost") as connection:
                    seen.add(connection.getpeercert(binary_form=True))
                    connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(call) for call in (call_on_standing_connections, call_on_new_connections) * 2]
        for number, renewal in enumerate(renewals, 2):
            replace(old, renewal)
            if number % 2:
                fleet["identity"].process.send_signal(signal.SIGHUP)
            eventually(lambda count=number: len(seen) >= count or any(caller.done() for caller in callers))
        over.set()
        for caller in callers:
            caller.result(30)
    assert len(seen) == 5 and len(answered) > 20


@pytest.mark.usefixtures("engine")
def test_sighup_takes_the_certificate_at_once(renewable):
    fleet, old, new = renewable
    replace(old, new)
    fleet["identity"].process.send_signal(signal.SIGHUP)
    eventually(lambda: serves(fleet, new))


@pytest.mark.usefixtures("engine")
def test_files_that_do_not_hold_change_nothing(renewable):
    fleet, old, new = renewable
    # The new certificate with the old key.
    old_certificate = old.certificate.read_bytes()
    shutil.copy(new.certificate, old.certificate)
    eventually(lambda: errors(fleet))
    assert serves(fleet, authority.Files(old.authority, None, None))
    [error] = errors(fleet)
    assert "tls.certificateFile" in error["reason"]
    # No file at all, and one that is no certificate.
    old.certificate.unlink()
    fleet["identity"].process.send_signal(signal.SIGHUP)
    eventually(lambda: len(reasons(fleet)) == 2)
    old.certificate.write_text("-----BEGIN NONSENSE-----\n")
    fleet["identity"].process.send_signal(signal.SIGHUP)
    eventually(lambda: len(reasons(fleet)) == 3)
    assert serves(fleet, authority.Files(old.authority, None, None))
    # Whole again, it is silent.
    before = errors(fleet)
    old.certificate.write_bytes(old_certificate)
    fleet["identity"].process.send_signal(signal.SIGHUP)
    eventually(lambda: "the TLS files were read again" in fleet["identity"].log_path.read_text())
    assert errors(fleet) == before


@pytest.fixture(scope="module")
def mutual(binaries, tmp_path_factory):
    """The three services that prove themselves to each other by certificate: (world, authority)."""
    folder = tmp_path_factory.mktemp("mutual")
    issuer = authority.Authority()
    arguments = {}
    for name in NAMES:
        files = issuer.issue(folder / name, "localhost", f"latchkey-{name}")
        arguments[name] = [
            "--services-authentication", "certificate",
            "--tls-certificate-file", str(files.certificate),
            "--tls-key-file", str(files.key),
            "--tls-ca-file", str(files.authority),
            "--tls-caller-ca-file", str(files.authority),
        ]  # fmt: skip
    with services.Fleet(binaries, folder, arguments=arguments, tls=True) as fleet:
        world = World(fleet, authority=files.authority)
        yield world, issuer
        world.close()


@pytest.mark.usefixtures("engine")
def test_R41_services_call_each_other_by_certificate_alone(mutual):
    """R41: services call each other by certificate alone"""
    world, _ = mutual
    assert not (world.fleet.data_directory / "service-token").exists()
    phone, screen = world.account(), world.device()
    code = screen.issue_qr()
    phone.confirm(phone.scan(code.qr_payload), check_code=code.check_code)
    assert screen.poll(wait_ms=5000).tokens.access_token


@pytest.mark.usefixtures("engine")
def test_R41_a_service_only_method_asks_for_the_right_certificate(mutual, tmp_path):
    """R41: a service only method asks for the right certificate"""
    world, issuer = mutual

    def issue_for_qr(files, metadata=()):
        shown = (files.key.read_bytes(), files.certificate.read_bytes()) if files else (None, None)
        credentials = grpc.ssl_channel_credentials(world.authority.read_bytes(), *shown)
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(world.target("identity"), credentials, options) as channel:
            grant_service_pb2_grpc.GrantServiceStub(channel).IssueForQr(
                grant_service_pb2.IssueForQrRequest(), metadata=metadata, timeout=10
            )

    right = issuer.issue(tmp_path / "right", "latchkey-qr")
    # Let through to the method itself, which finds the request empty.
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        issue_for_qr(right)
    with refused(grpc.StatusCode.PERMISSION_DENIED, "SERVICE_ONLY"):
        issue_for_qr(issuer.issue(tmp_path / "migrator", "latchkey-migrator"))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SERVICE_ONLY"):
        issue_for_qr(issuer.issue(tmp_path / "stranger", "latchkey-qr.example.com"))
    with refused(grpc.StatusCode.UNAUTHENTICATED, "SERVICE_ONLY"):
        issue_for_qr(None)
    # A name counts only as a DNS name or a URI, and only one service's.
    qr = "latchkey-qr"
    names = {
        "the subject alone": [x509.DNSName("other.example")],
        "mail": [x509.RFC822Name(qr), x509.RFC822Name(f"{qr}@example.com")],
        "a number": [x509.RegisteredID(x509.ObjectIdentifier("1.2.3")), x509.DNSName("x")],
        "a directory's": [x509.DirectoryName(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, qr)]))],
        "another case": [x509.DNSName("Latchkey-QR")],
        "a wildcard": [x509.DNSName("*"), x509.DNSName("latchkey-*")],
        "two services'": [x509.DNSName(qr), x509.DNSName("latchkey-migrator")],
        "an address": [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))],
    }
    for kind, alternatives in names.items():
        files = issuer.issue(tmp_path / kind, qr, alternatives=alternatives)
        with refused(grpc.StatusCode.UNAUTHENTICATED, "SERVICE_ONLY"):
            issue_for_qr(files)
    # A person's token and the shared secret of another installation open nothing, with or without a certificate.
    person = world.account()
    for files in (right, None):
        with refused(grpc.StatusCode.PERMISSION_DENIED, "SERVICE_ONLY"):
            issue_for_qr(files, person.metadata)
        with refused(grpc.StatusCode.UNAUTHENTICATED):
            issue_for_qr(files, bearer("lks_" + "A" * 43))
    # These do not get through the handshake.
    for files in (
        authority.Authority().issue(tmp_path / "other", "latchkey-qr"),
        issuer.issue(tmp_path / "expired", "latchkey-qr", days=0),
    ):
        with pytest.raises(grpc.RpcError) as error:
            issue_for_qr(files)
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    world.assert_alive()
