internal import CDescriptorProtos

/// Reads protoc's descriptors (protoc-c's structs for `descriptor.proto`) into a `Schema`, and refuses what the
/// generator does not support rather than generate something that means less.
@safe
struct DescriptorReader {
  private let file: Google__Protobuf__FileDescriptorProto
  private let name: String
  private var comments: [[Int32]: [String]] = [:]

  /// `file` must stay allocated while the reader is used.
  init(_ file: Google__Protobuf__FileDescriptorProto) {
    unsafe self.file = file
    name = unsafe text(file.name)
    if let info = unsafe file.source_code_info {
      for unsafe location in unsafe elements(info.pointee.n_location, info.pointee.location) {
        let path = unsafe Array(UnsafeBufferPointer(start: location.pointee.path, count: location.pointee.n_path))
        let leading = unsafe Self.lines(text(location.pointee.leading_comments))
        let trailing = unsafe Self.lines(text(location.pointee.trailing_comments))
        if !leading.isEmpty || !trailing.isEmpty { comments[path] = leading.isEmpty ? trailing : leading }
      }
    }
  }

  func read() throws(GeneratorError) -> Schema.File {
    let syntax = unsafe text(file.syntax)
    guard syntax == "proto3" else { throw GeneratorError("\(name): only proto3 is supported") }
    guard unsafe file.n_extension == 0 else { throw GeneratorError("\(name): extensions are not supported") }
    let package = unsafe text(file.package)
    guard !package.isEmpty else { throw GeneratorError("\(name): a package is needed") }
    var result = Schema.File(
      name: name, package: package, imports: imports(), descriptor: packed(), messages: [], enums: [], services: [])
    for unsafe (index, message) in unsafe elements(file.n_message_type, file.message_type).enumerated() {
      result.messages.append(try unsafe read(message.pointee, in: package, [4, Int32(index)]))
    }
    for unsafe (index, value) in unsafe elements(file.n_enum_type, file.enum_type).enumerated() {
      result.enums.append(unsafe read(value.pointee, in: package, [5, Int32(index)]))
    }
    for unsafe (index, service) in unsafe elements(file.n_service, file.service).enumerated() {
      result.services.append(unsafe read(service.pointee, in: package, [6, Int32(index)]))
    }
    return result
  }

  private func imports() -> [String] {
    // protobuf-c set the count to the pointers that `dependency` points to.
    unsafe UnsafeBufferPointer(start: file.dependency, count: file.n_dependency).map { unsafe text($0) }
  }

  private func packed() -> [UInt8] {
    // A copy of the struct, so that the comments stay where they are for whoever frees them.
    var bare = unsafe file
    unsafe bare.source_code_info = nil
    let size = unsafe google__protobuf__file_descriptor_proto__get_packed_size(&bare)
    return unsafe [UInt8](unsafeUninitializedCapacity: size) { target, count in
      // The target has room for the size that protobuf-c worked out for this file.
      count = unsafe google__protobuf__file_descriptor_proto__pack(&bare, target.baseAddress)
    }
  }

  // The numbers in the paths are the field numbers of descriptor.proto (SourceCodeInfo.Location.path).

  private func read(
    _ message: Google__Protobuf__DescriptorProto,
    in scope: String,
    _ path: [Int32]
  ) throws(GeneratorError) -> Schema.Message {
    let messageName = unsafe text(message.name)
    let fullName = "\(scope).\(messageName)"
    if let options = unsafe message.options, unsafe options.pointee.map_entry != 0 {
      throw GeneratorError("\(name): \(scope) has a map; write a repeated message of key and value")
    }
    var result = Schema.Message(
      name: messageName, fullName: fullName, comment: comments[path] ?? [], fields: [], oneofs: [], messages: [],
      enums: [])
    for unsafe (index, oneof) in unsafe elements(message.n_oneof_decl, message.oneof_decl).enumerated() {
      let comment = comments[path + [8, Int32(index)]] ?? []
      result.oneofs.append(Schema.Oneof(name: unsafe text(oneof.pointee.name), comment: comment))
    }
    for unsafe (index, nested) in unsafe elements(message.n_nested_type, message.nested_type).enumerated() {
      result.messages.append(try unsafe read(nested.pointee, in: fullName, path + [3, Int32(index)]))
    }
    for unsafe (index, nested) in unsafe elements(message.n_enum_type, message.enum_type).enumerated() {
      result.enums.append(unsafe read(nested.pointee, in: fullName, path + [4, Int32(index)]))
    }
    for unsafe (index, field) in unsafe elements(message.n_field, message.field).enumerated() {
      result.fields.append(try unsafe read(field.pointee, of: fullName, path + [2, Int32(index)]))
    }
    return result
  }

  private func read(
    _ field: Google__Protobuf__FieldDescriptorProto,
    of message: String,
    _ path: [Int32]
  ) throws(GeneratorError) -> Schema.Field {
    let fieldName = unsafe text(field.name)
    guard unsafe field.proto3_optional == 0 else {
      throw GeneratorError("\(message).\(fieldName): protoc-c has no proto3 optional; use a message field or a oneof")
    }
    guard fieldName != "self" else {
      throw GeneratorError("\(message).\(fieldName): Swift has no way to write a member of this name")
    }
    let typeName = unsafe String(text(field.type_name).drop { $0 == "." })
    let kind: Schema.Kind
    switch unsafe field.type.rawValue {
    case 1: kind = .double
    case 2: kind = .float
    case 3, 16, 18: kind = .int64
    case 4, 6: kind = .uint64
    case 5, 15, 17: kind = .int32
    case 7, 13: kind = .uint32
    case 8: kind = .bool
    case 9: kind = .string
    case 11: kind = .message(typeName)
    case 12: kind = .bytes
    case 14: kind = .enum(typeName)
    default: throw GeneratorError("\(message).\(fieldName): groups are not supported")
    }
    return unsafe Schema.Field(
      name: fieldName,
      number: field.number,
      kind: kind,
      isRepeated: field.label.rawValue == 3,
      isPlainVarint: [3, 4, 5, 8, 13, 14].contains(field.type.rawValue),
      oneof: field.has_oneof_index != 0 ? Int(field.oneof_index) : nil,
      comment: comments[path] ?? []
    )
  }

  private func read(
    _ value: Google__Protobuf__EnumDescriptorProto,
    in scope: String,
    _ path: [Int32]
  ) -> Schema.Enum {
    let enumName = unsafe text(value.name)
    var result = Schema.Enum(
      name: enumName, fullName: "\(scope).\(enumName)", comment: comments[path] ?? [], values: [])
    for unsafe (index, item) in unsafe elements(value.n_value, value.value).enumerated() {
      let comment = comments[path + [2, Int32(index)]] ?? []
      result.values.append(
        unsafe Schema.EnumValue(name: text(item.pointee.name), number: item.pointee.number, comment: comment))
    }
    return result
  }

  private func read(
    _ service: Google__Protobuf__ServiceDescriptorProto,
    in package: String,
    _ path: [Int32]
  ) -> Schema.Service {
    let serviceName = unsafe text(service.name)
    var result = Schema.Service(
      name: serviceName, fullName: "\(package).\(serviceName)", comment: comments[path] ?? [], methods: [])
    for unsafe (index, method) in unsafe elements(service.n_method, service.method).enumerated() {
      result.methods.append(
        unsafe Schema.Method(
          name: text(method.pointee.name),
          input: String(text(method.pointee.input_type).drop { $0 == "." }),
          output: String(text(method.pointee.output_type).drop { $0 == "." }),
          clientStreams: method.pointee.client_streaming != 0,
          serverStreams: method.pointee.server_streaming != 0,
          comment: comments[path + [2, Int32(index)]] ?? []
        ))
    }
    return result
  }

  /// A comment's lines without the blank that follows `//`, and without empty lines around them.
  private static func lines(_ comment: String) -> [String] {
    var lines = comment.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      var line = line
      if line.first == " " { line.removeFirst() }
      while line.last == " " { line.removeLast() }
      return String(line)
    }
    while lines.last == "" { lines.removeLast() }
    while lines.first == "" { lines.removeFirst() }
    return lines
  }
}
