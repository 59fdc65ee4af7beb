/// Parsed `.proto` files as plain values: what the emitters read.
package struct Schema: Sendable {
  /// Every file of the request, imported files first.
  package var files: [File]

  package struct File: Sendable {
    package var name: String
    package var package: String
    /// The names of the files that it imports.
    package var imports: [String]
    /// The `FileDescriptorProto` on the wire, without comments.
    package var descriptor: [UInt8]
    package var messages: [Message]
    package var enums: [Enum]
    package var services: [Service]
  }

  package struct Message: Sendable {
    package var name: String
    /// Dotted, with the package, without a leading dot.
    package var fullName: String
    package var comment: [String]
    package var fields: [Field]
    package var oneofs: [Oneof]
    package var messages: [Message]
    package var enums: [Enum]
  }

  package struct Field: Sendable {
    package var name: String
    package var number: Int32
    package var kind: Kind
    package var isRepeated: Bool
    /// Whether a number's wire form is the plain varint: not zigzag, not of fixed width.
    package var isPlainVarint: Bool
    /// Index into the message's `oneofs`.
    package var oneof: Int?
    package var comment: [String]
  }

  package enum Kind: Sendable, Equatable {
    case double, float, int64, uint64, int32, uint32, bool, string, bytes
    case message(String)
    case `enum`(String)
  }

  package struct Oneof: Sendable {
    package var name: String
    package var comment: [String]
  }

  package struct Enum: Sendable {
    package var name: String
    package var fullName: String
    package var comment: [String]
    package var values: [EnumValue]
  }

  package struct EnumValue: Sendable {
    package var name: String
    package var number: Int32
    package var comment: [String]
  }

  package struct Service: Sendable {
    package var name: String
    package var fullName: String
    package var comment: [String]
    package var methods: [Method]
  }

  package struct Method: Sendable {
    package var name: String
    /// Full names.
    package var input: String
    package var output: String
    package var clientStreams: Bool
    package var serverStreams: Bool
    package var comment: [String]
  }
}
