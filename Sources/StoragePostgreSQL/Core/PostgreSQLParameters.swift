/// The values of a statement in the form in which libpq takes them.
struct PostgreSQLParameters {
  /// All of them, one after the other, each followed by a NUL.
  private var data: [UInt8] = []
  /// Where each begins; nil for NULL.
  private var starts: [Int?] = []
  private var lengths: [Int32] = []
  /// 1 for bytes as they are, 0 for the text form.
  private var formats: [Int32] = []

  init(_ values: [PostgreSQLValue]) {
    for value in values { add(value) }
  }

  private mutating func add(_ value: PostgreSQLValue) {
    switch value {
    case .null: addNull()
    case .integer(let value): add(String(value).utf8, isText: true)
    // With its length: a text that holds a NUL is refused, not cut.
    case .text(let value): add(value.utf8, isText: false)
    case .bytes(let value): add(value, isText: false)
    case .bool(let value): add((value ? "t" : "f").utf8, isText: true)
    case .integers(let values): add(Self.array(values.map(String.init)), isText: true)
    case .texts(let values): add(Self.array(values.map(Self.quoted)), isText: true)
    case .byteArrays(let values): add(Self.array(values.map { "\"\\\\x\(Self.hexadecimal($0))\"" }), isText: true)
    case .uuids(let values): add(Self.array(values.map(Self.hexadecimal)), isText: true)
    }
  }

  private mutating func add(_ bytes: some Collection<UInt8>, isText: Bool) {
    starts.append(data.count)
    lengths.append(Int32(bytes.count))
    formats.append(isText ? 0 : 1)
    data.append(contentsOf: bytes)
    data.append(0)
  }

  private mutating func addNull() {
    starts.append(nil)
    lengths.append(0)
    formats.append(0)
  }

  private static func array(_ elements: [String]) -> String.UTF8View { "{\(elements.joined(separator: ","))}".utf8 }

  private static func quoted(_ text: String) -> String {
    var quoted = "\""
    for character in text.unicodeScalars {
      if character == "\"" || character == "\\" { quoted.unicodeScalars.append("\\") }
      quoted.unicodeScalars.append(character)
    }
    return quoted + "\""
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
  }

  /// Hands them to `body` as libpq takes them: how many, pointers, lengths and formats. They hold for the call.
  func withPointers<Result>(
    _ body: (
      Int32, UnsafePointer<UnsafePointer<CChar>?>?, UnsafePointer<Int32>?, UnsafePointer<Int32>?
    ) -> Result
  ) -> Result {
    // Each pointer is into `data`, which is not empty when there is one, and lives through the call.
    unsafe data.withUnsafeBufferPointer { data in
      let base = unsafe UnsafeRawPointer(data.baseAddress)?.assumingMemoryBound(to: CChar.self)
      let pointers: [UnsafePointer<CChar>?] = unsafe starts.map { start in
        unsafe start.flatMap { unsafe base?.advanced(by: $0) }
      }
      return unsafe pointers.withUnsafeBufferPointer { pointers in
        unsafe lengths.withUnsafeBufferPointer { lengths in
          unsafe formats.withUnsafeBufferPointer { formats in
            unsafe body(Int32(starts.count), pointers.baseAddress, lengths.baseAddress, formats.baseAddress)
          }
        }
      }
    }
  }
}
