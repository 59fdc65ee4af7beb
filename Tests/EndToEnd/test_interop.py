"""The public gRPC interoperability cases: stock clients against our server, our client against stock servers."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

import authority
import pytest

import services

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTEROP = ROOT / "Tests" / "Interop"
BUILD = ROOT / ".build" / "interop"
CASES = 19
SECURITY = ["cleartext", "TLS"]
# The interpreter that Debian's python3-grpcio is for, whatever environment runs the tests.
PYTHONS = {"PyPI grpcio": sys.executable, "Debian grpcio": "/usr/bin/python3"}


@pytest.fixture(scope="session")
def program(binaries):
    assert (binaries / "latchkey-interop").exists(), "latchkey-interop is missing: swift build"
    return str(binaries / "latchkey-interop")


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return authority.issue(tmp_path_factory.mktemp("interop-tls"))


@contextlib.contextmanager
def serving(command, security, files):
    """Runs a server that prints its port and ends with its input; answers host:port."""
    if security == "TLS":
        command = [*command, "--certificate", str(files.certificate), "--key", str(files.key)]
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=services.clean_environment()
    )
    try:
        port = int(server.stdout.readline())
        yield f"localhost:{port}"
        server.stdin.close()
        assert server.wait(timeout=60) == 0, "the server did not end in order"
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="session", params=SECURITY)
def server(request, program, files):
    with serving([program], request.param, files) as target:
        yield target, files.authority if request.param == "TLS" else None


def is_current(target, *sources):
    return target.exists() and all(target.stat().st_mtime > source.stat().st_mtime for source in sources)


def run(*command, **environment):
    subprocess.run(list(map(str, command)), check=True, env=os.environ | environment)


def built_cpp(source):
    """A program in C++, compiled against Debian's gRPC."""
    target = BUILD / f"{source.stem}-cpp"
    protos = ["grpc/testing/test.proto", "google/rpc/status.proto", "google/rpc/error_details.proto"]
    if is_current(target, source, *(ROOT / "proto" / proto for proto in protos)):
        return target
    libraries = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], check=True, capture_output=True, text=True
    ).stdout.split()
    generated = BUILD / "generated-cpp"
    archive = generated / "messages.a"
    if not is_current(archive, *(ROOT / "proto" / proto for proto in protos)):
        generated.mkdir(parents=True, exist_ok=True)
        run("protoc", "-I", ROOT / "proto", f"--cpp_out={generated}", *protos)
        run(
            "protoc", "-I", ROOT / "proto", f"--grpc_out={generated}", "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
            protos[0],
        )  # fmt: skip
        objects = []
        for unit in sorted(generated.rglob("*.cc")):
            objects.append(unit.with_suffix(".o"))
            run("g++", "-std=c++17", "-I", generated, "-c", "-o", objects[-1], unit, *libraries)
        run("ar", "rcs", archive, *objects)
    run("g++", "-std=c++17", "-I", generated, "-o", target, source, archive, *libraries)
    return target


def built_go(source):
    """A program in Go, compiled from Debian's sources of gRPC Go."""
    target, proto = BUILD / f"{source.stem}-go", ROOT / "proto/grpc/testing/test.proto"
    if is_current(target, source, proto):
        return target
    generated, plugin = BUILD / "go-path" / "src", BUILD / "protoc-gen-go"
    # Debian's packages are a GOPATH; nothing comes from elsewhere.
    go = {
        "GO111MODULE": "off", "GOFLAGS": "", "GOPATH": f"{BUILD / 'go-path'}:/usr/share/gocode",
        "GOCACHE": str(BUILD / "go-cache"),
    }  # fmt: skip
    if not is_current(generated / "grpc/testing/test.pb.go", proto):
        generated.mkdir(parents=True, exist_ok=True)
        run("go", "build", "-o", plugin, "github.com/golang/protobuf/protoc-gen-go", **go)
        run(
            "protoc", "-I", ROOT / "proto", f"--plugin={plugin}",
            f"--go_out=plugins=grpc,paths=source_relative:{generated}", proto,
        )  # fmt: skip
    run("go", "build", "-o", target, source, **go)
    return target


BUILT = {"gRPC C++": (built_cpp, "cc"), "gRPC Go": (built_go, "go")}
STOCK = [*PYTHONS, *BUILT]


def built(library, source):
    build, suffix = BUILT[library]
    return str(build(INTEROP / f"{source}.{suffix}"))


def command(client, target, trust):
    if client in PYTHONS:
        options = ["--authority", str(trust)] if trust else []
        return [PYTHONS[client], str(INTEROP / "interop.py"), "--target", target, *options]
    return [built(client, "Clients/interop"), target, *([str(trust)] if trust else [])]


def server_command(library):
    if library in PYTHONS:
        return [PYTHONS[library], str(INTEROP / "Servers" / "server.py")]
    return [built(library, "Servers/server")]


def outcome(command):
    """What a client prints, and (passed, failed) of its last line."""
    # Python finds its packages by itself: a variable of the caller's would lead one interpreter to the other's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    text = done.stdout + done.stderr
    counts = re.findall(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert counts, text
    passed, failed = map(int, counts[-1])
    assert done.returncode == (1 if failed else 0), text
    return text, passed, failed


@pytest.mark.parametrize("client", STOCK)
def test_a_stock_client_passes_every_case(client, server):
    text, passed, failed = outcome(command(client, *server))
    assert (passed, failed) == (CASES, 0), text


# gRPC Go lets no handler choose whether its answer is compressed.
IMPOSSIBLE = {"gRPC Go": {"server_compressed_unary", "server_compressed_streaming"}}


@pytest.mark.parametrize("security", SECURITY)
@pytest.mark.parametrize("library", STOCK)
def test_our_client_passes_every_case_against_a_stock_server(program, files, library, security):
    impossible = IMPOSSIBLE.get(library, set())
    with serving(server_command(library), security, files) as target:
        trust = ["--authority", str(files.authority)] if security == "TLS" else []
        text, passed, failed = outcome([program, "--client", target, *trust])
    assert set(re.findall(r"^FAILED (\w+)", text, re.MULTILINE)) == impossible, text
    assert (passed, failed) == (CASES - len(impossible), len(impossible)), text


def test_our_client_passes_every_case_against_our_server(program, server):
    """Which looks at each request for whether it came compressed, unlike the stock server."""
    target, trust = server
    text, passed, failed = outcome([program, "--client", target, *(["--authority", str(trust)] if trust else [])])
    assert (passed, failed) == (CASES, 0), text


def test_without_a_server_every_case_of_every_client_fails(program):
    """No case passes for want of a server, as cancel_after_begin would by itself."""
    target = f"127.0.0.1:{services.free_port()}"
    for client in ([program, "--client", target], command("PyPI grpcio", target, None)):
        text, passed, failed = outcome(client)
        assert (passed, failed) == (0, CASES), text


@pytest.mark.parametrize("library", BUILT)
def test_a_stock_client_decodes_the_details_of_an_error(world, library):
    """The machine reason and the field at fault, by the google.rpc types that its own library brings"""
    method = "/latchkey.qr.v1.QrSessionService/IssueSession"
    details = [built(library, "Clients/interop"), "--details", world.target("qr"), method]
    shown = subprocess.run(details, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert shown[0] == "code 3" and "field client_id" in shown, shown
    method = "/latchkey.qr.v1.QrSessionService/ConfirmSession"
    details[-1] = method
    shown = subprocess.run(details, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    assert shown[0] == "code 16" and any(line.startswith("reason ") for line in shown), shown
