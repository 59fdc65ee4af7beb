#!/usr/bin/env python3
"""The public gRPC interoperability cases, run with C-core (PyPI grpcio, or Debian's python3-grpcio).

    swift build --product latchkey-interop
    python3 Tests/Interop/interop.py --server .build/debug/latchkey-interop

--target HOST:PORT runs against a server that is up already, over TLS with --authority; --case NAME runs only that case.
The last line is "N passed, N failed"; the exit status is 0 when none failed. Needs protoc (Debian protobuf-compiler) or
grpcio-tools.

Source of the cases: grpc/grpc doc/interop-test-descriptions.md.
"""

import argparse
import pathlib
import queue
import subprocess
import sys
import tempfile
import time
import traceback

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[2]
LARGE_REQUEST = 271828
LARGE_RESPONSE = 314159
STREAM_REQUESTS = (27182, 8, 1828, 45904)
STREAM_RESPONSES = (31415, 9, 2653, 58979)
DEADLINE = 20


def load_messages():
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "set.pb"
        arguments = [f"-I{ROOT / 'proto'}", f"--descriptor_set_out={out}", "grpc/testing/test.proto"]
        try:
            subprocess.run(["protoc"] + arguments, check=True)
        except FileNotFoundError:
            subprocess.run([sys.executable, "-m", "grpc_tools.protoc"] + arguments, check=True)
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    if hasattr(message_factory, "GetMessageClass"):
        find = message_factory.GetMessageClass
    else:  # protobuf before 4.22
        find = message_factory.MessageFactory(pool).GetPrototype
    return lambda name: find(pool.FindMessageTypeByName(f"grpc.testing.{name}"))


message = load_messages()
Empty = message("Empty")
SimpleRequest = message("SimpleRequest")
SimpleResponse = message("SimpleResponse")
InputRequest = message("StreamingInputCallRequest")
InputResponse = message("StreamingInputCallResponse")
OutputRequest = message("StreamingOutputCallRequest")
OutputResponse = message("StreamingOutputCallResponse")
SERVICE = "/grpc.testing.TestService/"


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def check_equal(actual, expected, what):
    check(actual == expected, f"{what}: {actual!r}, expected {expected!r}")


class Stub:
    def __init__(self, channel):
        def call(kind, name, request, response, service=SERVICE):
            return getattr(channel, kind)(
                service + name, request_serializer=request.SerializeToString, response_deserializer=response.FromString)

        self.empty = call("unary_unary", "EmptyCall", Empty, Empty)
        self.unary = call("unary_unary", "UnaryCall", SimpleRequest, SimpleResponse)
        self.input = call("stream_unary", "StreamingInputCall", InputRequest, InputResponse)
        self.output = call("unary_stream", "StreamingOutputCall", OutputRequest, OutputResponse)
        self.duplex = call("stream_stream", "FullDuplexCall", OutputRequest, OutputResponse)
        self.half_duplex = call("stream_stream", "HalfDuplexCall", OutputRequest, OutputResponse)
        self.no_method = call("unary_unary", "UnimplementedCall", Empty, Empty)
        self.no_service = call(
            "unary_unary", "UnimplementedCall", Empty, Empty, service="/grpc.testing.UnimplementedService/")


def large_request():
    request = SimpleRequest(response_size=LARGE_RESPONSE)
    request.payload.body = bytes(LARGE_REQUEST)
    return request


def output_request(size, body=0, interval_us=0):
    request = OutputRequest()
    request.response_parameters.add(size=size, interval_us=interval_us)
    request.payload.body = bytes(body)
    return request


class Requests:
    """A stream of requests that a case feeds as it goes."""

    def __init__(self):
        self.queue = queue.Queue()

    def send(self, request):
        self.queue.put(request)

    def close(self):
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


def status_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    return None


def check_status(error, code, details=None):
    check(error is not None, f"the call succeeded, expected {code}")
    check_equal(error.code(), code, f"status ({error.details()!r})")
    if details is not None:
        check_equal(error.details(), details, "status message")


def empty_unary(stub):
    check_equal(stub.empty(Empty(), timeout=DEADLINE), Empty(), "response")


def large_unary(stub):
    response = stub.unary(large_request(), timeout=DEADLINE)
    check_equal(response.payload.body, bytes(LARGE_RESPONSE), "payload")


def client_streaming(stub):
    def requests():
        for size in STREAM_REQUESTS:
            request = InputRequest()
            request.payload.body = bytes(size)
            yield request

    response = stub.input(requests(), timeout=DEADLINE)
    check_equal(response.aggregated_payload_size, sum(STREAM_REQUESTS), "aggregated size")


def server_streaming(stub):
    request = OutputRequest()
    for size in STREAM_RESPONSES:
        request.response_parameters.add(size=size)
    sizes = tuple(len(response.payload.body) for response in stub.output(request, timeout=DEADLINE))
    check_equal(sizes, STREAM_RESPONSES, "sizes")


def ping_pong(stub):
    requests = Requests()
    responses = stub.duplex(iter(requests), timeout=DEADLINE)
    for response_size, request_size in zip(STREAM_RESPONSES, STREAM_REQUESTS):
        requests.send(output_request(response_size, request_size))
        check_equal(len(next(responses).payload.body), response_size, "size")
    requests.close()
    check_equal(list(responses), [], "responses after the last")
    check_equal(responses.code(), grpc.StatusCode.OK, "status")


def half_duplex(stub):
    responses = stub.half_duplex((output_request(size) for size in STREAM_RESPONSES), timeout=DEADLINE)
    check_equal(tuple(len(response.payload.body) for response in responses), STREAM_RESPONSES, "sizes")


def empty_stream(stub):
    responses = stub.duplex(iter([]), timeout=DEADLINE)
    check_equal(list(responses), [], "responses")
    check_equal(responses.code(), grpc.StatusCode.OK, "status")


def cancel_after_begin(stub):
    requests = Requests()
    call = stub.input.future(iter(requests), timeout=DEADLINE)
    call.cancel()
    requests.close()
    check(call.cancelled(), "the call is not cancelled")
    check_equal(call.code(), grpc.StatusCode.CANCELLED, "status")


def cancel_after_first_response(stub):
    requests = Requests()
    responses = stub.duplex(iter(requests), timeout=DEADLINE)
    requests.send(output_request(31415, 27182))
    check_equal(len(next(responses).payload.body), 31415, "size")
    responses.cancel()
    check_status(status_of(lambda: next(responses)), grpc.StatusCode.CANCELLED)
    requests.close()


def timeout_on_sleeping_server(stub):
    requests = Requests()
    started = time.monotonic()
    # The case's own request: the server would answer after half a minute.
    responses = stub.duplex(iter(requests), timeout=0.2)
    requests.send(output_request(1, 27182, interval_us=30_000_000))
    check_status(status_of(lambda: next(responses)), grpc.StatusCode.DEADLINE_EXCEEDED)
    check(time.monotonic() - started < 5, "the deadline was not kept")
    requests.close()


def status_code_and_message(stub):
    request = SimpleRequest()
    request.response_status.code = 2
    request.response_status.message = "test status message"
    error = status_of(lambda: stub.unary(request, timeout=DEADLINE))
    check_status(error, grpc.StatusCode.UNKNOWN, "test status message")

    duplex = OutputRequest()
    duplex.response_status.CopyFrom(request.response_status)
    responses = stub.duplex(iter([duplex]), timeout=DEADLINE)
    check_status(status_of(lambda: list(responses)), grpc.StatusCode.UNKNOWN, "test status message")


def special_status_message(stub):
    text = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n"
    request = SimpleRequest()
    request.response_status.code = 2
    request.response_status.message = text
    check_status(status_of(lambda: stub.unary(request, timeout=DEADLINE)), grpc.StatusCode.UNKNOWN, text)


def custom_metadata(stub):
    metadata = (
        ("x-grpc-test-echo-initial", "test_initial_metadata_value"),
        ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"),
    )

    def verify(initial, trailing):
        check_equal(dict(initial).get(metadata[0][0]), metadata[0][1], "initial metadata")
        check_equal(dict(trailing).get(metadata[1][0]), metadata[1][1], "trailing metadata")

    _, call = stub.unary.with_call(large_request(), metadata=metadata, timeout=DEADLINE)
    verify(call.initial_metadata(), call.trailing_metadata())

    responses = stub.duplex(
        iter([output_request(LARGE_RESPONSE, LARGE_REQUEST)]), metadata=metadata, timeout=DEADLINE)
    check_equal(len(next(responses).payload.body), LARGE_RESPONSE, "size")
    check_equal(list(responses), [], "responses after the first")
    verify(responses.initial_metadata(), responses.trailing_metadata())


def unimplemented_method(stub):
    check_status(status_of(lambda: stub.no_method(Empty(), timeout=DEADLINE)), grpc.StatusCode.UNIMPLEMENTED)


def unimplemented_service(stub):
    check_status(status_of(lambda: stub.no_service(Empty(), timeout=DEADLINE)), grpc.StatusCode.UNIMPLEMENTED)


def client_compressed_unary(stub):
    request = large_request()
    request.expect_compressed.value = True
    error = status_of(lambda: stub.unary(request, timeout=DEADLINE))
    check_status(error, grpc.StatusCode.INVALID_ARGUMENT)
    response = stub.unary(request, timeout=DEADLINE, compression=grpc.Compression.Gzip)
    check_equal(response.payload.body, bytes(LARGE_RESPONSE), "payload")
    request.expect_compressed.value = False
    response = stub.unary(request, timeout=DEADLINE)
    check_equal(response.payload.body, bytes(LARGE_RESPONSE), "payload")


def server_compressed_unary(stub):
    # Python cannot see whether a message came compressed: the C++ client and our own do.
    for compressed in (True, False):
        request = large_request()
        request.response_compressed.value = compressed
        check_equal(stub.unary(request, timeout=DEADLINE).payload.body, bytes(LARGE_RESPONSE), "payload")


def client_compressed_streaming(stub):
    def requests():
        request = InputRequest()
        request.expect_compressed.value = True
        request.payload.body = bytes(27182)
        yield request

    error = status_of(lambda: stub.input(requests(), timeout=DEADLINE))
    check_status(error, grpc.StatusCode.INVALID_ARGUMENT)
    response = stub.input(requests(), timeout=DEADLINE, compression=grpc.Compression.Gzip)
    check_equal(response.aggregated_payload_size, 27182, "aggregated size")


def server_compressed_streaming(stub):
    request = OutputRequest()
    for size, compressed in ((31415, True), (92653, False)):
        parameters = request.response_parameters.add(size=size)
        parameters.compressed.value = compressed
    sizes = [len(response.payload.body) for response in stub.output(request, timeout=DEADLINE)]
    check_equal(sizes, [31415, 92653], "sizes")


CASES = [
    empty_unary, large_unary, client_streaming, server_streaming, ping_pong, half_duplex, empty_stream,
    cancel_after_begin, cancel_after_first_response, timeout_on_sleeping_server, status_code_and_message, special_status_message,
    custom_metadata, unimplemented_method, unimplemented_service, client_compressed_unary, server_compressed_unary,
    client_compressed_streaming, server_compressed_streaming,
]


def connect(target, authority):
    options = [("grpc.use_local_subchannel_pool", 1)]
    if authority is None:
        return grpc.insecure_channel(target, options)
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(authority.read_bytes()), options)


def run(target, cases, authority=None):
    passed = failed = 0
    for case in cases:
        # Each case has a connection of its own, and counts only where a plain call works before and after it:
        # cancel_after_begin would pass without any server.
        with connect(target, authority) as channel:
            stub = Stub(channel)
            try:
                empty_unary(stub)
                case(stub)
                empty_unary(stub)
            except (AssertionError, grpc.RpcError, StopIteration):
                failed += 1
                print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
            else:
                passed += 1
                print(f"passed {case.__name__}")
    print(f"{passed} passed, {failed} failed")
    return failed == 0


def main():
    parser = argparse.ArgumentParser(description="Runs the public gRPC interoperability cases.")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--server", help="path of latchkey-interop, which is started on a free port")
    place.add_argument("--target", help="host:port of a server that is up")
    parser.add_argument("--authority", type=pathlib.Path, help="PEM file: speak TLS with --target")
    parser.add_argument("--case", choices=[case.__name__ for case in CASES])
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.case in (None, case.__name__)]
    print(f"grpcio {grpc.__version__}")
    if arguments.target:
        return run(arguments.target, cases, arguments.authority)
    server = subprocess.Popen([arguments.server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        return run(f"127.0.0.1:{int(server.stdout.readline())}", cases)
    finally:
        # The server ends with its input, after the calls under way.
        server.stdin.close()
        server.wait(timeout=60)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
