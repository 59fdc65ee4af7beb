/// The value of `grpc-timeout`: at most eight digits and a unit.
///
/// Source: gRPC over HTTP/2, "Timeout".
package enum GRPCTimeout {
  /// The duration that `bytes` say, or nil for anything but a well-formed value. Zero is well-formed and long over.
  package static func parse(_ bytes: UnsafeRawBufferPointer) -> Duration? {
    guard (2...9).contains(bytes.count) else { return nil }
    var value: Int64 = 0
    for index in 0..<bytes.count - 1 {
      // The index is below the count.
      let digit = unsafe bytes[index] &- UInt8(ascii: "0")
      guard digit <= 9 else { return nil }
      value = value * 10 + Int64(digit)
    }
    // As above. Eight digits of hours are 3.6e11 seconds: nothing here overflows.
    switch unsafe bytes[bytes.count - 1] {
    case UInt8(ascii: "H"): return .seconds(value * 3600)
    case UInt8(ascii: "M"): return .seconds(value * 60)
    case UInt8(ascii: "S"): return .seconds(value)
    case UInt8(ascii: "m"): return .milliseconds(value)
    case UInt8(ascii: "u"): return .microseconds(value)
    case UInt8(ascii: "n"): return .nanoseconds(value)
    default: return nil
    }
  }

  /// The value for `duration`, in the finest unit that eight digits can say. Rounds down, so that the server never
  /// waits longer than the client; what is negative becomes zero.
  package static func format(_ duration: Duration) -> String {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0, attoseconds >= 0 else { return "0n" }
    let limit: Int64 = 100_000_000
    let nanoseconds = attoseconds / 1_000_000_000
    if seconds == 0, nanoseconds < limit { return "\(nanoseconds)n" }
    if seconds < 100 { return "\(seconds * 1_000_000 + nanoseconds / 1000)u" }
    if seconds < 100_000 { return "\(seconds * 1000 + nanoseconds / 1_000_000)m" }
    if seconds < limit { return "\(seconds)S" }
    if seconds / 60 < limit { return "\(seconds / 60)M" }
    return "\(min(seconds / 3600, limit - 1))H"
  }
}
