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
    var result: String?
    forEach { candidate, value in
      guard candidate.equals(name) else { return true }
      result = String(decoding: value, as: UTF8.self)
      return false
    }
    return result
  }

  /// The value of an ASCII field that may come once, without making `Metadata`.
  package func sole(_ name: StaticString) -> SoleValue {
    var result = SoleValue.none
    forEach { candidate, value in
      guard candidate.equals(name) else { return true }
      guard case .none = result else {
        result = .several
        return false
      }
      result = .one(String(decoding: value, as: UTF8.self))
      return true
    }
    return result
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

extension ArraySlice<UInt8> {
  /// Whether the bytes are those of `text`.
  fileprivate func equals(_ text: StaticString) -> Bool {
    guard count == text.utf8CodeUnitCount else { return false }
    // A static string's bytes stay where they are.
    return unsafe elementsEqual(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
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
