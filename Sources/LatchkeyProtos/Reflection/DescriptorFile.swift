internal import GRPC

/// A `.proto` file as server reflection hands it out.
package struct DescriptorFile: Sendable {
  package let name: String
  /// The names of the files that it imports.
  package let imports: [String]
  /// The full names of its messages, enums, services and methods.
  package let symbols: [String]
  private let base64: String

  package init(name: String, imports: [String], symbols: [String], base64: String) {
    self.name = name
    self.imports = imports
    self.symbols = symbols
    self.base64 = base64
  }

  /// The serialised `google.protobuf.FileDescriptorProto`. Decoded anew each time.
  package var descriptor: [UInt8] { BinaryMetadata.decode(base64.utf8) ?? [] }
}
