/// Writes a service that has methods: the protocol to implement, its methods as an enum, its routes and its client.
struct ServiceEmitter {
  let types: TypeTable

  func emit(_ service: Schema.Service, into out: inout SourceWriter) {
    emitProtocol(service, into: &out)
    out.line()
    emitMethods(service, into: &out)
    out.line()
    emitRoutes(service, into: &out)
    out.line()
    emitClient(service, into: &out)
  }

  private func emitProtocol(_ service: Schema.Service, into out: inout SourceWriter) {
    out.comment(service.comment)
    out.block("package protocol \(SwiftName.escaped(service.name)): Sendable {") { out in
      for (index, method) in service.methods.enumerated() {
        if index > 0 { out.line() }
        let request = types.swiftName(method.input)
        let response = types.swiftName(method.output)
        var parameters = [
          method.clientStreams ? "_ requests: RequestStream<\(request)>" : "_ request: \(request)"
        ]
        if method.serverStreams { parameters.append("responses: ResponseWriter<\(response)>") }
        parameters.append("context: ServerContext")
        out.comment(method.comment)
        out.list(
          "func \(name(method))", parameters,
          " async throws(RPCError)" + (method.serverStreams ? "" : " -> \(response)"))
      }
    }
  }

  private func emitMethods(_ service: Schema.Service, into out: inout SourceWriter) {
    out.comment(["Every method of `\(service.name)`, by its path on the wire."])
    out.block("package enum \(service.name)Method: String, CaseIterable, Sendable {") { out in
      for method in service.methods {
        out.line("case \(name(method)) = \"/\(service.fullName)/\(method.name)\"")
      }
      out.line()
      out.block("package var rpc: RPCMethod {") { out in
        let kinds = Set(service.methods.map(kind))
        if kinds.count == 1, let only = kinds.first {
          out.line("RPCMethod(path: rawValue, kind: .\(only))")
          return
        }
        out.line("switch self {")
        for kind in ["unary", "serverStreaming", "clientStreaming", "bidirectional"] where kinds.contains(kind) {
          let names = service.methods.filter { self.kind($0) == kind }.map { ".\(name($0))" }
          out.line("case \(names.joined(separator: ", ")): RPCMethod(path: rawValue, kind: .\(kind))")
        }
        out.line("}")
      }
    }
  }

  private func emitRoutes(_ service: Schema.Service, into out: inout SourceWriter) {
    let methods = "\(service.name)Method"
    out.comment(["What a server needs to answer the calls of `\(service.name)`."])
    let signature =
      "package static func \(SwiftName.lowerFirst(service.name))Routes(_ service: some \(service.name)) -> [RPCRoute] {"
    out.block(signature) { out in
      out.block("[", closing: "]") { out in
        for method in service.methods {
          let request = types.swiftName(method.input)
          let response = types.swiftName(method.output)
          let input = method.clientStreams ? "requests: RequestStream<\(request)>" : "request: \(request)"
          let inputName = method.clientStreams ? "requests" : "request"
          var parameters = [input]
          if method.serverStreams { parameters.append("responses: ResponseWriter<\(response)>") }
          parameters.append("context: ServerContext")
          out.block(".\(kind(method))(\(methods).\(name(method)).rpc) {", closing: "},") { out in
            out.list(
              "", parameters, " async throws(RPCError)" + (method.serverStreams ? " in" : " -> \(response) in"))
            let arguments = method.serverStreams ? "responses: responses, context: context" : "context: context"
            out.line("try await service.\(name(method))(\(inputName), \(arguments))")
          }
        }
      }
    }
  }

  private func emitClient(_ service: Schema.Service, into out: inout SourceWriter) {
    out.comment(["Calls `\(service.name)` through a channel."])
    out.block("package struct \(service.name)Client: Sendable {") { out in
      out.line("private let channel: any RPCChannel")
      out.line()
      out.block("package init(channel: any RPCChannel) {") { out in out.line("self.channel = channel") }
      for method in service.methods {
        out.line()
        out.comment(method.comment)
        emitCall(method, "\(service.name)Method.\(name(method)).rpc", into: &out)
      }
    }
  }

  private func emitCall(_ method: Schema.Method, _ rpc: String, into out: inout SourceWriter) {
    let request = types.swiftName(method.input)
    let response = types.swiftName(method.output)
    let options = "options: CallOptions = CallOptions()"
    let send = "send: @escaping @Sendable (RequestWriter<\(request)>) async throws(RPCError) -> Void"
    let body = "body: (ResponseStream<\(response)>) async throws(RPCError) -> Result"
    switch (method.clientStreams, method.serverStreams) {
    case (false, false):
      out.list(
        "package func \(name(method))", ["_ request: \(request)", options], " async throws(RPCError) -> \(response) {"
      ) { out in out.line("try await channel.unary(\(rpc), request, options: options)") }
    case (false, true):
      out.list(
        "package func \(name(method))<Result: Sendable>", ["_ request: \(request)", options, "_ \(body)"],
        " async throws(RPCError) -> Result {"
      ) { out in out.line("try await channel.serverStreaming(\(rpc), request, options: options, body)") }
    case (true, false):
      out.list("package func \(name(method))", [options, "_ \(send)"], " async throws(RPCError) -> \(response) {") {
        out in out.line("try await channel.clientStreaming(\(rpc), options: options, send)")
      }
    case (true, true):
      out.list(
        "package func \(name(method))<Result: Sendable>", [options, send, body], " async throws(RPCError) -> Result {"
      ) { out in out.line("try await channel.bidirectional(\(rpc), options: options, send, body)") }
    }
  }

  private func name(_ method: Schema.Method) -> String {
    SwiftName.escaped(SwiftName.method(method.name))
  }

  private func kind(_ method: Schema.Method) -> String {
    switch (method.clientStreams, method.serverStreams) {
    case (false, false): "unary"
    case (false, true): "serverStreaming"
    case (true, false): "clientStreaming"
    case (true, true): "bidirectional"
    }
  }
}
