/// The metadata of a call: names in lower case, in the order they came, repeats kept.
///
/// A name that ends in `-bin` holds bytes; any other holds printable ASCII. Source: gRPC over HTTP/2, "Custom-Metadata".
package struct Metadata: Sendable, Equatable {
  package enum FieldValue: Sendable, Equatable {
    case ascii(String)
    case binary([UInt8])
  }

  package struct Entry: Sendable, Equatable {
    package var name: String
    package var value: FieldValue
  }

  package private(set) var entries: [Entry] = []

  package init() {}

  package var isEmpty: Bool { entries.isEmpty }

  /// Appends an ASCII value. `name` must be lower case and must not end in `-bin`.
  package mutating func add(_ name: String, _ value: String) {
    entries.append(Entry(name: name, value: .ascii(value)))
  }

  /// Appends bytes. `name` must be lower case and end in `-bin`.
  package mutating func add(_ name: String, binary value: [UInt8]) {
    entries.append(Entry(name: name, value: .binary(value)))
  }

  package mutating func append(contentsOf other: Metadata) {
    entries.append(contentsOf: other.entries)
  }

  /// The first ASCII value of `name`, or nil.
  package subscript(name: String) -> String? {
    for entry in entries where entry.name == name {
      if case .ascii(let value) = entry.value { return value }
    }
    return nil
  }

  /// The first binary value of `name`, or nil.
  package func firstBinary(_ name: String) -> [UInt8]? {
    for entry in entries where entry.name == name {
      if case .binary(let value) = entry.value { return value }
    }
    return nil
  }
}

extension Metadata: ExpressibleByDictionaryLiteral {
  // A witness of a public protocol; the type itself stays within the package.
  public init(dictionaryLiteral elements: (String, String)...) {
    self.init()
    for (name, value) in elements { add(name, value) }
  }
}
