internal import CNghttp2

/// Who a request is for, as `:authority` or `Host` says it, so that two ways to say it can be compared.
///
/// Source: RFC 9113 §8.3.1; RFC 3986 §6.2.2.1, case, and §6.2.3, a scheme's own port.
package struct Authority: Equatable {
  private var host: [UInt8]
  private var port: [UInt8]

  private init(_ text: UnsafeRawBufferPointer, usualPort: String) {
    // Both are copied before the call returns.
    unsafe host = Array(text)
    port = []
    let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
    // An IPv6 address ends with a bracket, so that its colons are none of a port.
    if let colon = host.lastIndex(of: UInt8(ascii: ":")), host[(colon + 1)...].allSatisfy(digits.contains) {
      port = Array(host[(colon + 1)...])
      host.removeSubrange(colon...)
    }
    if port.isEmpty { port = Array(usualPort.utf8) }
    for index in host.indices where (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(host[index]) {
      host[index] |= 0x20
    }
  }

  /// Whether the text is a host and perhaps a port, or nothing at all, without the name of a user (RFC 9113 §8.3.1,
  /// RFC 9112 §3.2).
  package static func isValid(_ text: some StringProtocol) -> Bool {
    var text = String(text)
    // Read before the call returns.
    return text.withUTF8 { unsafe isValid(UnsafeRawBufferPointer($0)) }
  }

  static func isValid(_ value: UnsafeRawBufferPointer) -> Bool {
    guard let bytes = unsafe value.baseAddress?.assumingMemoryBound(to: UInt8.self), value.count > 0 else {
      return true
    }
    // The library reads `value.count` bytes.
    return unsafe nghttp2_check_authority(bytes, value.count) != 0 && !value.contains(UInt8(ascii: "@"))
  }

  /// Whether all that the fields of a request say about whom it is for is the same.
  static func isOne(in fields: borrowing GatheredFields) -> Bool {
    var usualPort = ""
    _ = unsafe fields.deliver { name, value in
      guard unsafe name.isText(":scheme") else { return true }
      // Each is read before the call returns.
      if unsafe value.isText("http") { usualPort = "80" }
      if unsafe value.isText("https") { usualPort = "443" }
      return false
    }
    var first: Authority?
    return unsafe fields.deliver { name, value in
      guard unsafe name.isText(":authority") || name.isText("host") else { return true }
      let authority = unsafe Authority(value, usualPort: usualPort)
      if first == nil { first = authority }
      return first == authority
    }
  }
}
