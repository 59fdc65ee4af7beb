/// What a server says about retries in `grpc-retry-pushback-ms`. Source: gRFC A6, "Pushback".
package enum RetryPushback: Sendable, Equatable {
  /// Nothing: the client's own policy decides.
  case none
  /// Try again, after exactly this.
  case after(Duration)
  /// Do not try again. Also what a value that does not parse means.
  case never

  init(field value: UnsafeRawBufferPointer) {
    guard (1...9).contains(value.count) else {
      self = .never
      return
    }
    var milliseconds: Int64 = 0
    for index in 0..<value.count {
      // The index is below the count.
      let digit = unsafe value[index] &- UInt8(ascii: "0")
      guard digit <= 9 else {
        self = .never
        return
      }
      milliseconds = milliseconds * 10 + Int64(digit)
    }
    self = .after(.milliseconds(milliseconds))
  }
}
