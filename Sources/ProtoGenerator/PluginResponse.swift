internal import CDescriptorProtos

/// What a plugin writes to its standard output.
package enum PluginResponse: Sendable, Equatable {
  case files([OutputFile])
  case error(String)

  package func encoded() -> [UInt8] {
    var response = unsafe Google__Protobuf__Compiler__CodeGeneratorResponse()
    unsafe google__protobuf__compiler__code_generator_response__init(&response)
    var strings: [UnsafeMutablePointer<CChar>] = unsafe []
    var files: [UnsafeMutablePointer<Google__Protobuf__Compiler__CodeGeneratorResponse__File>?] = unsafe []
    // All that is allocated here is freed here, after packing.
    defer {
      for unsafe string in unsafe strings { unsafe string.deallocate() }
      for unsafe file in unsafe files { unsafe file?.deallocate() }
    }
    func copy(_ string: String) -> UnsafeMutablePointer<CChar> {
      let bytes = string.utf8CString
      let copy = UnsafeMutablePointer<CChar>.allocate(capacity: bytes.count)
      for (index, byte) in bytes.enumerated() { unsafe copy[index] = byte }
      unsafe strings.append(copy)
      return unsafe copy
    }
    switch self {
    case .error(let message):
      unsafe response.error = copy(message)
    case .files(let outputs):
      for output in outputs {
        let file = UnsafeMutablePointer<Google__Protobuf__Compiler__CodeGeneratorResponse__File>.allocate(capacity: 1)
        unsafe google__protobuf__compiler__code_generator_response__file__init(file)
        unsafe file.pointee.name = copy(output.name)
        unsafe file.pointee.content = copy(output.content)
        unsafe files.append(file)
      }
    }
    return unsafe files.withUnsafeMutableBufferPointer { list in
      unsafe response.n_file = list.count
      unsafe response.file = list.baseAddress
      let size = unsafe google__protobuf__compiler__code_generator_response__get_packed_size(&response)
      return unsafe [UInt8](unsafeUninitializedCapacity: size) { target, count in
        count = unsafe google__protobuf__compiler__code_generator_response__pack(&response, target.baseAddress)
      }
    }
  }
}
