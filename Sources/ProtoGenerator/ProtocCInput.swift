internal import CDescriptorProtos

/// Makes of a descriptor set what protoc-c is to see of it.
///
/// Every `string` field becomes a `bytes` field. protoc-c's `string` is a NUL-terminated `char *`: it drops the length
/// and checks no UTF-8, so that `"a\0b"` would pass as `"a"`. Both types look the same on the wire, and as `bytes`
/// nothing is lost.
///
/// Services are left out: ours are generated in Swift, and protoc-c turns a method's name into that of a C member
/// even where it is a word of C, such as `register`.
package enum ProtocCInput {
  /// Takes and returns a serialised `FileDescriptorSet`.
  package static func rewrite(_ descriptorSet: [UInt8]) throws(GeneratorError) -> [UInt8] {
    guard
      let set = unsafe google__protobuf__file_descriptor_set__unpack(nil, descriptorSet.count, descriptorSet)
    else { throw GeneratorError("standard input holds no FileDescriptorSet") }
    let files = unsafe elements(set.pointee.n_file, set.pointee.file)
    let serviceCounts = unsafe files.map { unsafe $0.pointee.n_service }
    // Freed once, after packing, with the counts that say what there is to free.
    defer {
      for unsafe (file, count) in unsafe zip(files, serviceCounts) { unsafe file.pointee.n_service = count }
      unsafe google__protobuf__file_descriptor_set__free_unpacked(set, nil)
    }
    for unsafe file in unsafe files {
      unsafe file.pointee.n_service = 0
      for unsafe message in unsafe elements(file.pointee.n_message_type, file.pointee.message_type) {
        unsafe rewrite(message)
      }
    }
    let size = unsafe google__protobuf__file_descriptor_set__get_packed_size(set)
    return unsafe [UInt8](unsafeUninitializedCapacity: size) { target, count in
      // The target has room for the size that protobuf-c worked out for this set.
      count = unsafe google__protobuf__file_descriptor_set__pack(set, target.baseAddress)
    }
  }

  private static func rewrite(_ message: UnsafeMutablePointer<Google__Protobuf__DescriptorProto>) {
    for unsafe field in unsafe elements(message.pointee.n_field, message.pointee.field)
    where unsafe field.pointee.type == GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_STRING {
      unsafe field.pointee.type = GOOGLE__PROTOBUF__FIELD_DESCRIPTOR_PROTO__TYPE__TYPE_BYTES
    }
    for unsafe nested in unsafe elements(message.pointee.n_nested_type, message.pointee.nested_type) {
      unsafe rewrite(nested)
    }
  }
}
