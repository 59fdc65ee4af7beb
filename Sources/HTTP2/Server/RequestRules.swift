internal import CNghttp2

/// What RFC 9113 §8.2 and §8.3 ask of the fields of a request, field by field.
///
///     check(field)* ──▶ isWellFormed(fields)
struct RequestRules {
  private var hasMethod = false
  private var hasScheme = false
  private var hasPath = false
  private var hasAuthority = false
  /// How often the block says who the request is for, by `:authority` or `Host`.
  private var authorities = 0
  private var isConnect = false
  private var isOptions = false
  private var isAsterisk = false
  private var isRegularPath = false
  private var hasOrdinary = false
  private var isMalformed: Bool
  /// The value of `content-length`; nil without one.
  private(set) var contentLength: Int?

  /// Trailers have no pseudo-header fields (§8.1).
  let isTrailers: Bool

  /// - Parameter isMalformed: whether the frame itself has said so, whatever its fields are.
  init(isTrailers: Bool, isMalformed: Bool = false) {
    self.isTrailers = isTrailers
    self.isMalformed = isMalformed
  }

  /// Whether the block may be taken for a request, or for the trailers of one.
  /// - Parameter fields: those that were checked.
  func isWellFormed(_ fields: borrowing GatheredFields) -> Bool {
    guard !isMalformed else { return false }
    if isTrailers { return true }
    // Few say it twice, so that the values are looked at only then.
    guard authorities < 2 || Authority.isOne(in: fields) else { return false }
    // §8.5: CONNECT names its target by the authority alone.
    if isConnect { return hasAuthority && !hasScheme && !hasPath }
    guard hasMethod, hasScheme, hasPath, authorities > 0 else { return false }
    return isRegularPath || (isOptions && isAsterisk)
  }

  mutating func check(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard !isMalformed else { return }
    // Every pointer here is read before the call returns.
    let isSound = unsafe name.first == UInt8(ascii: ":") ? checkPseudo(name, value) : checkOrdinary(name, value)
    if !isSound { isMalformed = true }
  }

  private mutating func checkPseudo(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    guard !isTrailers, !hasOrdinary else { return false }
    let bytes = unsafe value.baseAddress?.assumingMemoryBound(to: UInt8.self)
    // The library reads `value.count` bytes, and nothing where that is 0.
    if unsafe name.isText(":method") {
      guard !hasMethod, value.count > 0, unsafe nghttp2_check_method(bytes, value.count) != 0 else { return false }
      hasMethod = true
      unsafe isConnect = value.isText("CONNECT")
      unsafe isOptions = value.isText("OPTIONS")
      return true
    }
    if unsafe name.isText(":path") {
      guard !hasPath, value.count > 0, unsafe nghttp2_check_path(bytes, value.count) != 0 else { return false }
      hasPath = true
      unsafe isRegularPath = value[0] == UInt8(ascii: "/")
      unsafe isAsterisk = value.isText("*")
      return true
    }
    if unsafe name.isText(":scheme") {
      guard !hasScheme, unsafe Self.isScheme(value) else { return false }
      hasScheme = true
      return true
    }
    if unsafe name.isText(":authority") {
      guard !hasAuthority, unsafe Authority.isValid(value) else { return false }
      hasAuthority = true
      authorities += 1
      return true
    }
    return false
  }

  private mutating func checkOrdinary(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
    hasOrdinary = true
    let nameBytes = unsafe name.baseAddress?.assumingMemoryBound(to: UInt8.self)
    let valueBytes = unsafe value.baseAddress?.assumingMemoryBound(to: UInt8.self)
    // As above.
    guard name.count > 0, unsafe nghttp2_check_header_name(nameBytes, name.count) != 0,
      unsafe value.count == 0 || value.isPlainText || nghttp2_check_header_value_rfc9113(valueBytes, value.count) != 0
    else { return false }
    switch name.count {
    case 2 where unsafe name.isText("te"):
      return unsafe value.isText("trailers")
    case 4 where unsafe name.isText("host"):
      authorities += 1
      return unsafe Authority.isValid(value)
    // §8.2.2: what belongs to a connection of HTTP/1.1.
    case 7 where unsafe name.isText("upgrade"), 10 where unsafe name.isText("connection"),
      10 where unsafe name.isText("keep-alive"), 16 where unsafe name.isText("proxy-connection"),
      17 where unsafe name.isText("transfer-encoding"):
      return false
    case 14 where unsafe name.isText("content-length"):
      guard contentLength == nil, !isTrailers, let length = unsafe Self.number(value) else { return false }
      contentLength = length
      return true
    default:
      return true
    }
  }

  /// RFC 3986 §3.1.
  private static func isScheme(_ value: UnsafeRawBufferPointer) -> Bool {
    for unsafe (index, byte) in unsafe value.enumerated() {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): continue
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
        guard index > 0 else { return false }
      default: return false
      }
    }
    return value.count > 0
  }

  private static func number(_ value: UnsafeRawBufferPointer) -> Int? {
    // Sixteen digits are more than any body has, and fit.
    guard (1...16).contains(value.count) else { return nil }
    var number = 0
    for unsafe byte in unsafe value {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
      number = number * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return number
  }
}

extension UnsafeRawBufferPointer {
  /// Whether each byte is of a long value that needs no closer look: no control character, and no blank at either end. Eight
  /// bytes at a time.
  fileprivate var isPlainText: Bool {
    guard count >= 16 else { return false }
    let ones: UInt64 = 0x0101_0101_0101_0101
    func isPlain(at index: Int) -> Bool {
      // The caller's index leaves eight bytes.
      let word = unsafe loadUnaligned(fromByteOffset: index, as: UInt64.self)
      let delete = word ^ (ones &* 0x7f)
      // A byte's high bit shows one below 0x20, or one that is 0; bytes from 0x80 on are none of either.
      let low = (word &- ones &* 0x20) & ~word
      let none = (delete &- ones) & ~delete
      return (low | none) & (ones &* 0x80) == 0
    }
    for index in stride(from: 0, through: count - 8, by: 8) where !isPlain(at: index) { return false }
    // In bounds: there are sixteen bytes.
    return unsafe isPlain(at: count - 8) && self[0] != 0x20 && self[count - 1] != 0x20
  }

  /// Whether the bytes are those of `text`.
  func isText(_ text: StaticString) -> Bool {
    // A static string's bytes stay where they are.
    guard count == text.utf8CodeUnitCount else { return false }
    return unsafe elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: count))
  }
}
