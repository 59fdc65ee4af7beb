/// A part of Latchkey that takes bytes from a peer. It finds a mistake by stopping the process.
protocol FuzzTarget: Sendable {
  /// Names the folder of its corpus as well.
  var name: String { get }

  func run(_ input: UnsafeRawBufferPointer)
}

extension UnsafeRawBufferPointer {
  /// The bytes in pieces whose size the first byte says, 0 for one piece: where reads end is the peer's choice as well.
  func forEachPiece(_ body: (UnsafeRawBufferPointer) -> Void) {
    guard let first = unsafe first else { return }
    let size = first == 0 ? count : Int(first)
    var index = 1
    while index < count {
      let end = Swift.min(index + size, count)
      // In bounds by the line above.
      unsafe body(UnsafeRawBufferPointer(rebasing: self[index..<end]))
      index = end
    }
  }
}
