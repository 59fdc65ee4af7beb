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
    case .column(let kind, let values): addArray(of: kind, values)
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

  /// An array of one dimension in PostgreSQL's binary form: how many dimensions, whether there are NULLs, the elements' type, how
  /// many they are and the first one's number; then each with its length before it, which is -1 for NULL.
  private mutating func addArray(of column: PostgreSQLColumn, _ values: [PostgreSQLValue]) {
    var array: [UInt8] = []
    array.reserveCapacity(20 + 24 * values.count)
    for number in [values.isEmpty ? 0 : 1, values.contains(.null) ? 1 : 0, column.number] {
      array += Self.bytes(number)
    }
    if !values.isEmpty {
      array += Self.bytes(Int32(values.count)) + Self.bytes(1 as Int32)
      for value in values { Self.add(value, to: &array) }
    }
    add(array, isText: false)
  }

  private static func add(_ value: PostgreSQLValue, to array: inout [UInt8]) {
    func add(_ bytes: some Collection<UInt8>) {
      array += Self.bytes(Int32(bytes.count))
      array += bytes
    }
    switch value {
    case .null: array += bytes(-1 as Int32)
    case .integer(let value): add(bytes(value))
    case .text(let value): add(value.utf8)
    case .bytes(let value): add(value)
    case .bool(let value): add([value ? 1 : 0])
    case .column: preconditionFailure("a column of columns")
    }
  }

  /// As it is on the wire.
  private static func bytes<Number: FixedWidthInteger>(_ number: Number) -> [UInt8] {
    // Read before the call returns.
    unsafe withUnsafeBytes(of: number.bigEndian) { unsafe Array($0) }
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
