@testable import TransportServer

/// A whole connection of a server from its first byte, whose writes begin to fail and whose peer goes.
///
/// The first byte of the input is the first write that fails (255: none), the second the connection's course; the others are
/// what the peer sends, in pieces as in other targets.
struct FailingWritesTarget: FuzzTarget {
  let name = "failing-writes"

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 3 else { return }
    // In bounds by the line above; no closure keeps a pointer.
    let failing = unsafe input[0] == 255 ? Int.max : Int(input[0])
    let bits = unsafe input[1]
    let connection = FuzzedConnection(failing: failing)
    unsafe connection.run(bits, UnsafeRawBufferPointer(rebasing: input[2...]))
  }
}
