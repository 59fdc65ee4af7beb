internal import CDescriptorProtos

/// What protoc writes to a plugin's standard input.
package struct PluginRequest: Sendable {
  package var filesToGenerate: [String]
  /// What stood before the colon in `--latchkey_out=…:directory`.
  package var parameter: String
  package var schema: Schema

  package init(decoding bytes: [UInt8]) throws(GeneratorError) {
    guard
      let request = unsafe google__protobuf__compiler__code_generator_request__unpack(nil, bytes.count, bytes)
    else { throw GeneratorError("standard input holds no CodeGeneratorRequest: run me through protoc") }
    // Freed once; everything below is copied out of it first.
    defer { unsafe google__protobuf__compiler__code_generator_request__free_unpacked(request, nil) }
    filesToGenerate = unsafe UnsafeBufferPointer(
      start: request.pointee.file_to_generate, count: request.pointee.n_file_to_generate
    ).map { unsafe text($0) }
    parameter = unsafe text(request.pointee.parameter)
    schema = Schema(files: [])
    for unsafe file in unsafe elements(request.pointee.n_proto_file, request.pointee.proto_file) {
      schema.files.append(try unsafe DescriptorReader(file.pointee).read())
    }
  }

  /// The same from a serialised `FileDescriptorSet` with all its imports, every file of which is to be generated.
  package init(descriptorSet bytes: [UInt8], parameter: String) throws(GeneratorError) {
    guard let set = unsafe google__protobuf__file_descriptor_set__unpack(nil, bytes.count, bytes) else {
      throw GeneratorError("these bytes hold no FileDescriptorSet")
    }
    // Freed once; everything below is copied out of it first.
    defer { unsafe google__protobuf__file_descriptor_set__free_unpacked(set, nil) }
    self.parameter = parameter
    schema = Schema(files: [])
    for unsafe file in unsafe elements(set.pointee.n_file, set.pointee.file) {
      schema.files.append(try unsafe DescriptorReader(file.pointee).read())
    }
    filesToGenerate = schema.files.map(\.name)
  }
}
