/// Bytes that must not appear in a log, a trace or a crash report: they print as `[redacted]` and compare in a time
/// that does not depend on where they differ.
package struct RedactedSecret: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  /// The secret itself. Name it only where it is used up: hashed, sent, compared.
  package let exposed: [UInt8]

  package init(_ bytes: [UInt8]) {
    exposed = bytes
  }

  package init(_ text: String) {
    exposed = Array(text.utf8)
  }

  package var description: String { "[redacted]" }
  package var debugDescription: String { "[redacted]" }
  package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }

  package static func == (left: RedactedSecret, right: RedactedSecret) -> Bool {
    guard left.exposed.count == right.exposed.count else { return false }
    var difference: UInt8 = 0
    for index in left.exposed.indices { difference |= left.exposed[index] ^ right.exposed[index] }
    return difference == 0
  }
}
