/// Header fields as they came, in one piece of memory: names and values, one behind the other.
///
/// Most calls never look at their metadata, so it becomes `Metadata` only when somebody asks.
package struct FieldBlock: Sendable {
  /// Per field: two bytes for the length of the name, four for that of the value, the name, the value.
  private var bytes: [UInt8] = []

  package init() {}

  package var isEmpty: Bool { bytes.isEmpty }

  /// What it takes in memory.
  package var byteCount: Int { bytes.count }

  package mutating func removeAll() {
    bytes.removeAll(keepingCapacity: true)
  }

  mutating func reserve(_ byteCount: Int) { bytes.reserveCapacity(byteCount) }

  /// Appends a field. The lengths are within the session's limit on header lists, so they fit.
  package mutating func append(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard let nameCount = UInt16(exactly: name.count), let valueCount = UInt32(exactly: value.count) else { return }
    // All are copied before the call returns.
    unsafe withUnsafeBytes(of: nameCount.bigEndian) { unsafe bytes.append(contentsOf: $0) }
    unsafe withUnsafeBytes(of: valueCount.bigEndian) { unsafe bytes.append(contentsOf: $0) }
    unsafe bytes.append(contentsOf: name)
    unsafe bytes.append(contentsOf: value)
  }

  /// Calls `body` with each field until it returns false.
  package func forEach(_ body: (_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) -> Bool) {
    var index = 0
    while index + 6 <= bytes.count {
      let nameCount = Int(bytes[index]) << 8 | Int(bytes[index + 1])
      var valueCount = 0
      for offset in 2..<6 { valueCount = valueCount << 8 | Int(bytes[index + offset]) }
      let name = index + 6
      let value = name + nameCount
      index = value + valueCount
      guard body(bytes[name..<value], bytes[value..<index]) else { return }
    }
  }

  /// The first value of an ASCII field, without making `Metadata`.
  package func first(_ name: StaticString) -> String? {
    var index = 0
    return next(name, from: &index)
  }

  /// The value of an ASCII field that may come once, without making `Metadata`.
  package func sole(_ name: StaticString) -> SoleValue {
    var index = 0
    guard let value = next(name, from: &index) else { return .none }
    return next(name, from: &index) == nil ? .one(value) : .several
  }

  /// The next value of the field, looked for from where a field begins; where the one behind it begins.
  private func next(_ name: StaticString, from index: inout Int) -> String? {
    unsafe bytes.withUnsafeBytes { all in
      // `append` wrote whole fields.
      while index + 6 <= all.count {
        let start = index + 6
        let nameCount = unsafe Int(UInt16(bigEndian: all.loadUnaligned(fromByteOffset: index, as: UInt16.self)))
        let count = unsafe Int(UInt32(bigEndian: all.loadUnaligned(fromByteOffset: index + 2, as: UInt32.self)))
        let value = start + nameCount
        index = value + count
        guard index <= all.count else { return nil }
        // A static string's bytes stay where they are.
        guard unsafe UnsafeRawBufferPointer(rebasing: all[start..<value]).equals(name) else { continue }
        return unsafe String(decoding: UnsafeRawBufferPointer(rebasing: all[value..<index]), as: UTF8.self)
      }
      return nil
    }
  }
}

/// The value of a field that may come once.
package enum SoleValue: Sendable, Equatable {
  case none
  case one(String)
  /// Which of them counts must not be a matter of who reads them.
  case several
}

extension Metadata {
  /// Reads the fields of a call. A `-bin` value that is not base64 is left out: nobody could have meant it.
  package init(_ block: FieldBlock) {
    self.init()
    block.forEach { name, value in
      let isBinary = name.hasSuffix("-bin")
      let name = String(decoding: name, as: UTF8.self)
      if isBinary {
        for bytes in BinaryMetadata.decodeList(value) ?? [] { add(name, binary: bytes) }
      } else {
        add(name, String(decoding: value, as: UTF8.self))
      }
      return true
    }
  }
}

extension Collection<UInt8> {
  /// Whether the bytes end with those of `suffix`.
  func hasSuffix(_ suffix: StaticString) -> Bool {
    guard count >= suffix.utf8CodeUnitCount else { return false }
    // A static string's bytes stay where they are.
    return unsafe self.suffix(suffix.utf8CodeUnitCount)
      .elementsEqual(UnsafeBufferPointer(start: suffix.utf8Start, count: suffix.utf8CodeUnitCount))
  }
}
