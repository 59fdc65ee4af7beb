/// Writes a message: its Swift struct, and the two directions between it and protoc-c's struct.
struct MessageEmitter {
  let types: TypeTable

  // MARK: The Swift value

  func emitType(_ message: Schema.Message, into out: inout SourceWriter) {
    out.comment(message.comment)
    out.block("package struct \(SwiftName.escaped(message.name)): Sendable, Equatable {") { out in
      let members = members(of: message)
      for member in members {
        out.comment(member.comment)
        out.line("package var \(SwiftName.escaped(member.name)): \(member.type)")
      }
      if !members.isEmpty { out.line() }
      emitInitializer(members, into: &out)
      for (index, oneof) in message.oneofs.enumerated() {
        out.line()
        emitOneof(oneof, message.fields.filter { $0.oneof == index }, into: &out)
      }
      for nested in message.enums {
        out.line()
        EnumEmitter().emit(nested, into: &out)
      }
      for nested in message.messages {
        out.line()
        emitType(nested, into: &out)
      }
    }
  }

  private func emitInitializer(_ members: [Member], into out: inout SourceWriter) {
    guard !members.isEmpty else {
      out.line("package init() {}")
      return
    }
    let parameters = members.map { "\(SwiftName.escaped($0.name)): \($0.type) = \($0.defaultValue)" }
    out.list("package init", parameters, " {") { out in
      for member in members { out.line("self.\(SwiftName.escaped(member.name)) = \(SwiftName.escaped(member.name))") }
    }
  }

  private func emitOneof(_ oneof: Schema.Oneof, _ fields: [Schema.Field], into out: inout SourceWriter) {
    out.comment(oneof.comment)
    out.block("package enum \(SwiftName.oneofType(oneof.name)): Sendable, Equatable {") { out in
      for field in fields {
        out.comment(field.comment)
        out.line("case \(SwiftName.escaped(SwiftName.property(field.name)))(\(swiftType(field.kind)))")
      }
    }
  }

  /// A stored property: a field, or a oneof in the place of its first field.
  private struct Member {
    var name: String
    var type: String
    var defaultValue: String
    var comment: [String]
    var content: Content

    enum Content {
      case field(Schema.Field)
      case oneof(Schema.Oneof, [Schema.Field])
    }
  }

  private func members(of message: Schema.Message) -> [Member] {
    var members: [Member] = []
    var seen: Set<Int> = []
    for field in message.fields {
      if let index = field.oneof {
        if !seen.insert(index).inserted { continue }
        let oneof = message.oneofs[index]
        members.append(
          Member(
            name: SwiftName.property(oneof.name),
            type: SwiftName.oneofType(oneof.name) + "?",
            defaultValue: "nil",
            comment: oneof.comment,
            content: .oneof(oneof, message.fields.filter { $0.oneof == index })
          ))
        continue
      }
      let (type, defaultValue) = storage(of: field)
      members.append(
        Member(
          name: SwiftName.property(field.name), type: type, defaultValue: defaultValue, comment: field.comment,
          content: .field(field)))
    }
    return members
  }

  private func storage(of field: Schema.Field) -> (type: String, defaultValue: String) {
    let type = swiftType(field.kind)
    if field.isRepeated { return ("[\(type)]", "[]") }
    switch field.kind {
    case .message: return (type + "?", "nil")
    case .enum(let name): return (type, types.zeroCase(name).map { ".\($0)" } ?? ".init(rawValue: 0)")
    case .string: return (type, "\"\"")
    case .bytes: return (type, "[]")
    case .bool: return (type, "false")
    case .double, .float, .int64, .uint64, .int32, .uint32: return (type, "0")
    }
  }

  private func swiftType(_ kind: Schema.Kind) -> String {
    switch kind {
    case .double: "Double"
    case .float: "Float"
    case .int64: "Int64"
    case .uint64: "UInt64"
    case .int32: "Int32"
    case .uint32: "UInt32"
    case .bool: "Bool"
    case .string: "String"
    case .bytes: "[UInt8]"
    case .message(let name), .enum(let name): types.swiftName(name)
    }
  }

  // MARK: To and from protoc-c's struct

  func emitCoding(_ message: Schema.Message, isNested: Bool, into out: inout SourceWriter) {
    let swift = types.swiftName(message.fullName)
    let function = CName.function(message.fullName)
    out.line()
    // protoc-c writes no functions that pack or unpack a nested type by itself.
    out.block("extension \(swift)\(isNested ? "" : ": RPCMessage") {") { out in
      if !isNested {
        out.block("package init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError) {") { out in
          out.line("self = try unsafe decoded(bytes, \(function)__unpack, Self.init(reading:))")
        }
        out.line()
        let encode = "package func encode(into buffer: inout ByteBuffer)"
        if message.fields.isEmpty {
          out.line("\(encode) {}")
        } else {
          out.block("\(encode) throws(RPCError) {") { out in
            let functions = ["filled(in:)", "\(function)__get_packed_size", "\(function)__pack"]
            out.list("try unsafe encoded", ["&buffer"] + functions, "")
          }
        }
        out.line()
      }
      emitReading(message, into: &out)
      out.line()
      emitFilling(message, into: &out)
    }
    for nested in message.messages { emitCoding(nested, isNested: true, into: &out) }
  }

  private func emitReading(_ message: Schema.Message, into out: inout SourceWriter) {
    let type = CName.type(message.fullName)
    let members = members(of: message)
    out.comment(["Copies out of protoc-c's struct, which outlives the call."])
    out.block("init(reading c: UnsafePointer<\(type)>) throws(ProtobufError) {") { out in
      if members.isEmpty {
        out.line("self.init()")
        return
      }
      var arguments: [String] = []
      var head = "self.init"
      for member in members {
        switch member.content {
        case .field(let field):
          head = "unsafe self.init"
          arguments.append("\(SwiftName.label(member.name)): \(reading(field))")
        case .oneof(let oneof, let fields):
          arguments.append("\(SwiftName.label(member.name)): \(SwiftName.escaped(member.name))")
          emitReading(oneof, fields, into: &out)
        }
      }
      out.list(head, arguments, "")
    }
  }

  private func emitReading(_ oneof: Schema.Oneof, _ fields: [Schema.Field], into out: inout SourceWriter) {
    let name = SwiftName.escaped(SwiftName.property(oneof.name))
    out.line("let \(name): \(SwiftName.oneofType(oneof.name))?")
    out.line("switch unsafe c.pointee.\(oneof.name.lowercased())_case.rawValue {")
    for field in fields {
      let choice = SwiftName.escaped(SwiftName.property(field.name))
      let value = reading(field)
      if case .message = field.kind {
        out.line("case \(field.number): unsafe \(name) = \(value).map { .\(choice)($0) }")
      } else {
        out.line("case \(field.number): unsafe \(name) = .\(choice)(\(value))")
      }
    }
    out.line("default: \(name) = nil")
    out.line("}")
  }

  private func reading(_ field: Schema.Field) -> String {
    let member = "c.pointee.\(CName.member(field.name))"
    if field.isRepeated {
      let count = "c.pointee.n_\(field.name.lowercased())"
      let list = "\(count), \(member)"
      switch field.kind {
      case .string: return SourceWriter.call("try FieldReader.strings", count, member, "\"\(field.name)\"")
      case .bytes: return "FieldReader.list(\(list))" + SourceWriter.closure("unsafe FieldReader.bytes($0)")
      case .bool: return "FieldReader.list(\(list))" + SourceWriter.closure("$0 != 0")
      case .enum:
        return "FieldReader.list(\(list))"
          + SourceWriter.closure(".init(rawValue: Int32(truncatingIfNeeded: $0.rawValue))")
      case .message(let type):
        return SourceWriter.call(
          "try FieldReader.messages", count, member, "\"\(field.name)\"", "\(types.swiftName(type)).init(reading:)")
      case .double, .float, .int64, .uint64, .int32, .uint32: return "FieldReader.list(\(list)) { $0 }"
      }
    }
    switch field.kind {
    case .string: return "try FieldReader.string(\(member), \"\(field.name)\")"
    case .bytes: return "FieldReader.bytes(\(member))"
    case .bool: return "\(member) != 0"
    case .enum: return ".init(rawValue: Int32(truncatingIfNeeded: \(member).rawValue))"
    case .message(let type):
      return SourceWriter.call(
        "try FieldReader.message", member, "\"\(field.name)\"", "\(types.swiftName(type)).init(reading:)")
    case .double, .float, .int64, .uint64, .int32, .uint32: return member
    }
  }

  private func emitFilling(_ message: Schema.Message, into out: inout SourceWriter) {
    let type = CName.type(message.fullName)
    out.comment(["Copies into protoc-c's struct, in memory that lives until the arena is emptied."])
    out.list("func filled", ["in arena: Arena"], " throws(ProtobufError) -> UnsafeMutablePointer<\(type)> {") { out in
      out.line("let c = unsafe try arena.allocate(\(type).self)")
      out.line("unsafe \(CName.function(message.fullName))__init(c)")
      for member in members(of: message) {
        switch member.content {
        case .field(let field):
          emitFilling(field, SwiftName.escaped(member.name), into: &out)
        case .oneof(let oneof, let fields):
          out.line("switch \(SwiftName.escaped(member.name)) {")
          for field in fields {
            out.line("case .\(SwiftName.escaped(SwiftName.property(field.name)))(let value):")
            out.indented { out in
              out.line("unsafe c.pointee.\(oneof.name.lowercased())_case = .init(rawValue: \(field.number))")
              emitFillingOne(field, "value", into: &out)
            }
          }
          out.line("case nil: break")
          out.line("}")
        }
      }
      out.line("return unsafe c")
    }
  }

  private func emitFilling(_ field: Schema.Field, _ name: String, into out: inout SourceWriter) {
    let member = "c.pointee.\(CName.member(field.name))"
    if field.isRepeated {
      let target = "unsafe (c.pointee.n_\(field.name.lowercased()), \(member))"
      switch field.kind {
      case .message(let type):
        out.line(SourceWriter.call("\(target) = try arena.messages", name, "\(types.swiftName(type)).filled(in:)"))
      case .string:
        out.line("\(target) = try arena.list(\(name), arena.string)")
      case .bytes:
        out.line("\(target) = try arena.list(\(name), arena.bytes)")
      case .bool:
        out.line("\(target) = try arena.list(\(name)) { $0 ? 1 : 0 }")
      case .enum(let type):
        let body = "\(CName.type(type))(rawValue: .init(truncatingIfNeeded: $0.rawValue))"
        out.line("\(target) = try arena.list(\(name))" + SourceWriter.closure(body))
      case .double, .float, .int64, .uint64, .int32, .uint32:
        out.line("\(target) = try arena.list(\(name)) { $0 }")
      }
      return
    }
    if case .message = field.kind {
      out.line("if let \(name) { unsafe \(member) = try \(name).filled(in: arena) }")
      return
    }
    emitFillingOne(field, name, into: &out)
  }

  private func emitFillingOne(_ field: Schema.Field, _ name: String, into out: inout SourceWriter) {
    let member = "unsafe c.pointee.\(CName.member(field.name))"
    switch field.kind {
    case .string: out.line("\(member) = try arena.string(\(name))")
    case .bytes: out.line("\(member) = try arena.bytes(\(name))")
    case .bool: out.line("\(member) = \(name) ? 1 : 0")
    case .enum: out.line("\(member) = .init(rawValue: .init(truncatingIfNeeded: \(name).rawValue))")
    case .message: out.line("\(member) = try \(name).filled(in: arena)")
    case .double, .float, .int64, .uint64, .int32, .uint32: out.line("\(member) = \(name)")
    }
  }
}
