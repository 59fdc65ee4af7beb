/// The bounds of this module, each with the reason for its number.
package enum Limits {
  /// What a thread's arena keeps between messages: most messages fit, so most decode without a call to malloc.
  package static let keptBlock = 16 * 1024

  /// What is asked of malloc at a time beyond that: few calls, and little lost at a block's end.
  static let overflowBlock = 4 * keptBlock

  /// What any message may use however small it is: a few dozen scalar fields, each of which protobuf-c notes in 40
  /// bytes while it reads.
  package static let decodeFloor = 64 * 1024

  /// What a message may use for each byte of its wire form. Honest messages need little more than one (their strings)
  /// plus their structs; a two-byte empty submessage in a list needs about 40. A message made of nothing but those is
  /// refused.
  package static let decodeFactor = 16

  /// What no message may pass, however large its wire form is.
  package static let decodeCeiling = 32 * 1024 * 1024

  /// What building an outgoing message may use: four times the largest message a gRPC peer accepts unless told
  /// otherwise (4 MiB).
  package static let encodeCeiling = 4 * 4 * 1024 * 1024

  /// The memory that decoding `count` bytes may use.
  package static func decodeCap(forWireBytes count: Int) -> Int {
    guard count < decodeCeiling / decodeFactor else { return decodeCeiling }
    return decodeFloor + count * decodeFactor
  }
}
