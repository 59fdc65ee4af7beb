#!/usr/bin/env python3
"""Prints the golden KitchenSink as Python's protobuf encodes it, for KitchenSinkTests.swift.

    python3 -m venv venv && venv/bin/pip install protobuf grpcio-tools
    venv/bin/python Tests/ProtoGeneratorTests/make_vectors.py
"""

import pathlib
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parent / "Golden" / "proto"

with tempfile.NamedTemporaryFile() as out:
    files = ["golden/kitchen/v1/kitchen_sink.proto"]
    assert protoc.main(["protoc", f"-I{PROTO}", "--include_imports", f"--descriptor_set_out={out.name}"] + files) == 0
    descriptors = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
pool = descriptor_pool.DescriptorPool()
for file in descriptors.file:
    pool.Add(file)
KitchenSink = message_factory.GetMessageClass(pool.FindMessageTypeByName("golden.kitchen.v1.KitchenSink"))

sink = KitchenSink(
    a_double=-1.5, a_float=0.25, an_int32=-2, an_int64=-(1 << 63), a_uint32=(1 << 32) - 1, a_uint64=(1 << 64) - 1,
    a_sint32=-(1 << 31), a_sint64=-3, a_fixed32=4, a_fixed64=1 << 40, a_sfixed32=-5, a_sfixed64=-6, a_bool=True,
    a_string="\N{SNOWMAN}", some_bytes=b"\0\1", an_enum=1, a_signed=-1,
    doubles=[0.5, -0.5], floats=[1.0], int32s=[1, -1], sint64s=[-(1 << 62)], fixed64s=[7], bools=[True, False],
    strings=["", "s"], byteses=[b"", b"\xff"], enums=[-1, 2, 5], unpacked=[8, 9])
sink.a_message.text = "t"
sink.messages.add(mode=1)
sink.messages.add().innermost.text = "i"
choices = [("number", 0), ("text", "x"), ("raw", b""), ("flag", False), ("mode", 1), ("precise", 0.0)]

print("all", sink.SerializeToString(deterministic=True).hex())
for name, value in choices:
    print(name, KitchenSink(**{name: value}).SerializeToString().hex())
inner = KitchenSink()
inner.inner.SetInParent()
print("inner", inner.SerializeToString().hex())
