#!/usr/bin/env python3
"""grpc.testing.TestService on stock gRPC (C-core), for clients that run the public interoperability cases.

    python3 Tests/Interop/Servers/server.py [--certificate CHAIN.pem --key KEY.pem]

Prints its port, on loopback, and serves until its input ends. Compresses where it is asked to; what it cannot see is
whether a request came compressed, so it takes the client's word for it.
"""

import argparse
import pathlib
import sys
import threading
from concurrent import futures

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from interop import (  # noqa: E402
    Empty, InputRequest, InputResponse, OutputRequest, OutputResponse, SimpleRequest, SimpleResponse,
)

INITIAL, TRAILING = "x-grpc-test-echo-initial", "x-grpc-test-echo-trailing-bin"


def echo_metadata(context):
    for key, value in context.invocation_metadata():
        if key == INITIAL:
            context.send_initial_metadata([(key, value)])
        elif key == TRAILING:
            context.set_trailing_metadata([(key, value)])


def raise_status(status, context):
    if status.code:
        code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
        context.abort(code, status.message)


def empty_call(request, context):
    echo_metadata(context)
    return Empty()


def unary_call(request, context):
    echo_metadata(context)
    if request.response_compressed.value:
        context.set_compression(grpc.Compression.Gzip)
    raise_status(request.response_status, context)
    response = SimpleResponse()
    response.payload.body = bytes(request.response_size)
    return response


def outputs(request, context):
    raise_status(request.response_status, context)
    if any(parameters.compressed.value for parameters in request.response_parameters):
        context.set_compression(grpc.Compression.Gzip)
    # A handler that waits for the sake of a case does not outlive it.
    over = threading.Event()
    if not context.add_callback(over.set):
        return
    for parameters in request.response_parameters:
        if parameters.interval_us and over.wait(parameters.interval_us / 1e6):
            return
        if not parameters.compressed.value:
            context.disable_next_message_compression()
        response = OutputResponse()
        response.payload.body = bytes(parameters.size)
        yield response


def output_call(request, context):
    echo_metadata(context)
    yield from outputs(request, context)


def input_call(requests, context):
    echo_metadata(context)
    return InputResponse(aggregated_payload_size=sum(len(request.payload.body) for request in requests))


def duplex_call(requests, context):
    echo_metadata(context)
    for request in requests:
        yield from outputs(request, context)


def half_duplex_call(requests, context):
    echo_metadata(context)
    for request in list(requests):
        yield from outputs(request, context)


HANDLERS = {
    "EmptyCall": (grpc.unary_unary_rpc_method_handler, empty_call, Empty, Empty),
    "UnaryCall": (grpc.unary_unary_rpc_method_handler, unary_call, SimpleRequest, SimpleResponse),
    "StreamingOutputCall": (grpc.unary_stream_rpc_method_handler, output_call, OutputRequest, OutputResponse),
    "StreamingInputCall": (grpc.stream_unary_rpc_method_handler, input_call, InputRequest, InputResponse),
    "FullDuplexCall": (grpc.stream_stream_rpc_method_handler, duplex_call, OutputRequest, OutputResponse),
    "HalfDuplexCall": (grpc.stream_stream_rpc_method_handler, half_duplex_call, OutputRequest, OutputResponse),
}


def main():
    parser = argparse.ArgumentParser(description="Serves the public gRPC interoperability cases.")
    parser.add_argument("--certificate", type=pathlib.Path)
    parser.add_argument("--key", type=pathlib.Path)
    arguments = parser.parse_args()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=20))
    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler(
            "grpc.testing.TestService",
            {
                name: make(handler, request.FromString, response.SerializeToString)
                for name, (make, handler, request, response) in HANDLERS.items()
            },
        ),
    ))  # fmt: skip
    if arguments.certificate:
        credentials = grpc.ssl_server_credentials([(arguments.key.read_bytes(), arguments.certificate.read_bytes())])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main()
