internal import GRPC
internal import HTTP2

extension HTTP2FieldList {
  /// Appends what of the metadata a header block can carry.
  mutating func add(_ metadata: Metadata) {
    for field in metadata.carriedFields {
      add(field.name.utf8, field.value, sensitive: field.name == "authorization")
    }
  }
}
