"""Stubs by grpcio-tools, as any user of our .proto files would make them."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def generate():
    """Makes them, and lets `import latchkey...` find them."""
    from grpc_tools import protoc

    # A folder for each process that runs tests: none reads what another is writing.
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    target = pathlib.Path(os.environ.get("STUBS", ROOT / ".build" / "end-to-end" / f"stubs{worker}"))
    target.mkdir(parents=True, exist_ok=True)
    protos = sorted(
        str(path.relative_to(ROOT / "proto"))
        for folder in ("latchkey", "google/rpc", "grpc/health", "grpc/reflection")
        for path in (ROOT / "proto" / folder).rglob("*.proto")
    )
    include = pathlib.Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        ["protoc", f"-I{ROOT / 'proto'}", f"-I{include}", f"--python_out={target}", f"--grpc_python_out={target}", *protos]
    )
    assert status == 0, "protoc refused proto/"
    # `google` is a package of the protobuf library already: ours joins it instead of hiding it.
    import google

    google.__path__.append(str(target / "google"))
    # The `grpc` library is a package as well, and has no folders for health and reflection; where further packages of
    # theirs are installed, it gives out those.
    import grpc

    for name in ("grpc.health", "grpc.reflection"):
        sys.modules.pop(name, None)
    grpc.__path__.append(str(target / "grpc"))
    sys.path.insert(0, str(target))
