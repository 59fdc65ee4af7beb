import GRPC
import NIOCore
import NIOEmbedded

@testable import TransportServer

/// A whole connection of HTTP/1.1, pages and gRPC-Web calls one behind the other, whose writes begin to fail and whose
/// peer goes: every answer begins behind the end of the one before, and what was begun ends.
///
/// The first byte of the input is the first write that fails (255: none), the second the connection's course; the others are
/// what the peer sends, in pieces as in other targets.
struct PagesTarget: FuzzTarget {
  let name = "pages"

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 3 else { return }
    // In bounds by the line above; no closure keeps a pointer.
    let failing = unsafe input[0] == 255 ? Int.max : Int(input[0])
    let bits = unsafe input[1]
    let connection = FuzzedConnection(failing: failing) { pipeline, executor, environment in
      try PageHandler.addHandlers(
        to: pipeline,
        environment: environment,
        executor: executor,
        peer: ConnectionPeer(Peer(address: "127.0.0.1", port: 1, tlsNames: []))
      )
    }
    unsafe connection.run(bits, UnsafeRawBufferPointer(rebasing: input[2...]))
  }
}
