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


def cpp_client():
    """Our cases in C++, compiled against Debian's gRPC."""
    source, proto, client = INTEROP / "Clients" / "interop.cc", ROOT / "proto/grpc/testing/test.proto", BUILD / "cpp"
    if is_current(client, source, proto):
        return client
    generated = BUILD / "generated-cpp"
    generated.mkdir(parents=True, exist_ok=True)
    run(
        "protoc", "-I", ROOT / "proto", f"--cpp_out={generated}", f"--grpc_out={generated}",
        "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", proto,
    )  # fmt: skip
    libraries = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], check=True, capture_output=True, text=True
    ).stdout.split()
    messages = (generated / "grpc/testing").glob("*.cc")
    run("g++", "-std=c++17", "-I", generated, "-o", client, source, *messages, *libraries)
    return client


def go_client():
    """Our cases in Go, compiled from Debian's sources of gRPC Go."""
    source, proto, client = INTEROP / "Clients" / "interop.go", ROOT / "proto/grpc/testing/test.proto", BUILD / "go"
    if is_current(client, source, proto):
        return client
    generated, plugin = BUILD / "go-path" / "src", BUILD / "protoc-gen-go"
    generated.mkdir(parents=True, exist_ok=True)
    # Debian's packages are a GOPATH; nothing comes from elsewhere.
    go = {
        "GO111MODULE": "off", "GOFLAGS": "", "GOPATH": f"{BUILD / 'go-path'}:/usr/share/gocode",
        "GOCACHE": str(BUILD / "go-cache"),
    }  # fmt: skip
    run("go", "build", "-o", plugin, "github.com/golang/protobuf/protoc-gen-go", **go)
    run(
        "protoc", "-I", ROOT / "proto", f"--plugin={plugin}",
        f"--go_out=plugins=grpc,paths=source_relative:{generated}", proto,
    )  # fmt: skip
    run("go", "build", "-o", client, source, **go)
    return client


def command(client, target, trust):
    if client in PYTHONS:
        options = ["--authority", str(trust)] if trust else []
        return [PYTHONS[client], str(INTEROP / "interop.py"), "--target", target, *options]
    build = {"gRPC C++": cpp_client, "gRPC Go": go_client}[client]
    return [str(build()), target, *([str(trust)] if trust else [])]


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


@pytest.mark.parametrize("client", [*PYTHONS, "gRPC C++", "gRPC Go"])
def test_a_stock_client_passes_every_case(client, server):
    text, passed, failed = outcome(command(client, *server))
    assert (passed, failed) == (CASES, 0), text


@pytest.mark.parametrize("security", SECURITY)
@pytest.mark.parametrize("python", PYTHONS)
def test_our_client_passes_every_case_against_a_stock_server(program, files, python, security):
    with serving([PYTHONS[python], str(INTEROP / "server.py")], security, files) as target:
        trust = ["--authority", str(files.authority)] if security == "TLS" else []
        text, passed, failed = outcome([program, "--client", target, *trust])
    assert (passed, failed) == (CASES, 0), text


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
