#!/usr/bin/env python3
"""Writes PythonVectors.swift: messages encoded by Python's protobuf from the same .proto files.

    python3 -m venv venv && venv/bin/pip install protobuf grpcio-tools
    venv/bin/python Tests/LatchkeyProtosTests/make_vectors.py

The files are compiled by grpcio-tools' own protoc, so nothing of the generator under test takes part.
"""

import pathlib
import tempfile

import grpc_tools
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
BUILTIN = pathlib.Path(grpc_tools.__file__).parent / "_proto"


def load():
    files = [str(p.relative_to(PROTO)) for p in sorted(PROTO.glob("latchkey/**/*.proto"))]
    files += ["google/rpc/error_details.proto", "google/rpc/status.proto", "grpc/health/v1/health.proto"]
    with tempfile.NamedTemporaryFile() as out:
        arguments = ["protoc", f"-I{PROTO}", f"-I{BUILTIN}", "--include_imports", f"--descriptor_set_out={out.name}"]
        assert protoc.main(arguments + files) == 0
        descriptors = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in descriptors.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def vectors(message):
    token = message("latchkey.common.v1.TokenSet")(
        access_token="header.payload.signature", token_type="DPoP", expires_in=900, refresh_token="r",
        refresh_expires_in=1 << 40, scope="a b", sid="s\0\N{SNOWMAN}\N{GRINNING FACE}", cnf_jkt="k")
    token.server_time.seconds = 1_700_000_000
    token.server_time.nanos = 123_000_000
    yield "tokenSet", token

    poll = message("latchkey.qr.v1.PollSessionResponse")(state=3, version=7, interval=-1, tokens=token)
    poll.subject.sub = "u_1"
    yield "pollSessionResponse", poll
    yield "unknownState", message("latchkey.qr.v1.PollSessionResponse")(state=99)
    yield "negativeState", message("latchkey.qr.v1.PollSessionResponse")(state=-5)
    yield "scanByCode", message("latchkey.qr.v1.ScanSessionRequest")(user_code="BCDF-GHJK")
    yield "scanByEmptyPayload", message("latchkey.qr.v1.ScanSessionRequest")(qr_payload="")

    put = message("latchkey.migration.v1.PutRecordsRequest")()
    for index in range(3):
        put.records.add(collection="notes", key=f"k{index}", value=bytes(range(index * 2)), number=-index)
    yield "putRecords", put

    guest = message("latchkey.identity.v1.IssueGuestRequest")(client_id="app", proof=b"\x00\xff\x00", locale="de-CH")
    guest.device.device_id = "d"
    guest.device.public_key.x = "x"
    guest.device.reinstalled = True
    yield "issueGuest", guest

    summary = message("latchkey.identity.v1.Conflict")(choices=[1, 2, 77], link_ticket="t")
    yield "repeatedEnum", summary
    yield "repeatedString", message("latchkey.identity.v1.IntrospectResponse")(active=True, aud=["a", "", "b"])
    yield "empty", message("latchkey.identity.v1.RevokeResponse")()

    status = message("google.rpc.Status")(code=8, message="slow down")
    info = message("google.rpc.ErrorInfo")(reason="slow_down", domain="latchkey")
    info.metadata.add(key="interval", value="7")
    retry = message("google.rpc.RetryInfo")()
    retry.retry_delay.seconds = 7
    retry.retry_delay.nanos = 500_000_000
    bad = message("google.rpc.BadRequest")()
    bad.field_violations.add(field="device.public_key.x", description="is not on the curve")
    for detail in (info, retry, bad):
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.add(type_url=packed.type_url, value=packed.value)
    yield "status", status


def main():
    lines = [
        "// Made by make_vectors.py with Python's protobuf. Do not edit.",
        "",
        "/// Messages as another implementation writes them, in hexadecimal.",
        "enum PythonVectors {",
    ]
    for name, message in vectors(load()):
        text = message.SerializeToString(deterministic=True).hex()
        parts = [text[i:i + 100] for i in range(0, len(text), 100)] or [""]
        if len(parts) == 1:
            lines.append(f'  static let {name} = "{parts[0]}"')
            continue
        lines.append(f"  static let {name} =")
        for index, part in enumerate(parts):
            lines.append(f'    {"+ " if index else ""}"{part}"')
    lines.append("}")
    (pathlib.Path(__file__).parent / "PythonVectors.swift").write_text("\n".join(lines) + "\n")


main()
