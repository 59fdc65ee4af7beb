/// Finds the route of a path without making a `String` of it.
package final class Router: Sendable {
  private let slots: [Int32]
  private let routes: [RPCRoute]
  private let paths: [[UInt8]]

  /// Two routes with one path are a mistake of the program.
  package init(_ routes: [RPCRoute]) {
    self.routes = routes
    paths = routes.map { Array($0.method.path.utf8) }
    var size = 8
    while size < routes.count * 4 { size *= 2 }
    var slots = [Int32](repeating: -1, count: size)
    for (index, path) in paths.enumerated() {
      precondition(!paths[..<index].contains(path), "two routes for one path")
      // The bytes are only hashed within the closure.
      var slot = unsafe path.withUnsafeBytes { unsafe Self.hash($0) } & (size - 1)
      while slots[slot] >= 0 { slot = (slot + 1) & (size - 1) }
      slots[slot] = Int32(index)
    }
    self.slots = slots
  }

  /// The methods it knows, in the order of registration.
  package var methods: [RPCMethod] { routes.map(\.method) }

  /// The route of `path`, or nil.
  package subscript(path: UnsafeRawBufferPointer) -> RPCRoute? {
    var slot = unsafe Self.hash(path) & (slots.count - 1)
    while slots[slot] >= 0 {
      let index = Int(slots[slot])
      if unsafe paths[index].elementsEqual(path) { return routes[index] }
      slot = (slot + 1) & (slots.count - 1)
    }
    return nil
  }

  /// FNV-1a over the length and the last bytes, where method names differ. A full comparison follows, and the table
  /// never changes, so a peer gains nothing by colliding.
  private static func hash(_ bytes: UnsafeRawBufferPointer) -> Int {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ UInt64(bytes.count)
    for index in max(0, bytes.count - 24)..<bytes.count {
      hash = unsafe (hash ^ UInt64(bytes[index])) &* 0x100_0000_01b3
    }
    return Int(truncatingIfNeeded: hash ^ (hash >> 32))
  }
}
