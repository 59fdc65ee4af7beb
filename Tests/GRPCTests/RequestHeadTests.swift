import NIOCore
import Testing

@testable import GRPC

struct Blob: RPCMessage, Equatable {
  var bytes: [UInt8]

  init(_ bytes: [UInt8]) { self.bytes = bytes }

  init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError) { self.bytes = unsafe Array(bytes) }

  func encode(into buffer: inout ByteBuffer) throws(RPCError) { buffer.writeBytes(bytes) }
}

@Suite struct RequestHeadTests {
  private static let method = RPCMethod(path: "/t.T/Echo", kind: .unary)
  private let router = Router([
    .unary(method) { (request: Blob, _) async throws(RPCError) -> Blob in request },
    .unary(RPCMethod(path: "/t.T/Other", kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in request
    },
  ])

  private func head(_ changes: [String: String?] = [:], extra: [(String, String)] = []) -> RequestHead {
    var fields: [(String, String)] = [
      (":method", "POST"), (":scheme", "http"), (":path", "/t.T/Echo"), (":authority", "localhost"),
      ("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "test"),
    ]
    for (name, value) in changes {
      let index = fields.firstIndex { $0.0 == name } ?? fields.endIndex
      fields.replaceSubrange(index..<min(index + 1, fields.endIndex), with: value.map { [(name, $0)] } ?? [])
    }
    var head = RequestHead()
    for (name, value) in fields + extra { receive(&head, name, value) }
    return head
  }

  private func receive(_ head: inout RequestHead, _ name: String, _ value: String) {
    let name = Array(name.utf8)
    let value = Array(value.utf8)
    // Read within the closures only.
    unsafe name.withUnsafeBytes { name in
      unsafe value.withUnsafeBytes { value in unsafe head.receive(name, value, router) }
    }
  }

  private func refusal(_ head: RequestHead) -> RPCError? {
    if case .refuse(let error) = head.verdict { return error }
    return nil
  }

  @Test("A call finds its route, its timeout and its metadata")
  func call() {
    let head = head(["grpc-timeout": "250m"], extra: [("x-a", "1"), ("x-b-bin", "AAE"), ("x-a", "2")])
    guard case .call(let route, let timeout) = head.verdict else {
      Issue.record("no call: \(head.verdict)")
      return
    }
    #expect(route.method == Self.method)
    #expect(timeout == .milliseconds(250))
    let metadata = Metadata(head.fields)
    #expect(metadata["user-agent"] == "test")
    #expect(metadata.entries.filter { $0.name == "x-a" }.map(\.value) == [.ascii("1"), .ascii("2")])
    #expect(metadata.firstBinary("x-b-bin") == [0, 1])
    #expect(metadata["te"] == nil)
    #expect(metadata["grpc-timeout"] == nil)
    #expect(head.fields.first("x-a") == "1")
    #expect(head.fields.first("x-none") == nil)
  }

  @Test("What is no call keeps its content type, which a page reads; that of a call is no metadata")
  func pageContentType() {
    for type in ["application/json", "application/x-www-form-urlencoded", "text/html; charset=utf-8"] {
      #expect(head([":path": "/signin/code", "content-type": type]).fields.first("content-type") == type)
      #expect(head(["content-type": type]).fields.first("content-type") == nil)
    }
    for path in ["/t.T/Echo", "/t.T/None"] {
      #expect(head([":path": path, "content-type": "application/grpc+proto"]).fields.first("content-type") == nil)
    }
  }

  @Test(
    "Other content types are not gRPC",
    arguments: ["application/json", "application/grpcx", "application/grpc-web", "text/html", nil]
  )
  func contentType(value: String?) {
    guard case .unsupportedMediaType = head(["content-type": value]).verdict else {
      Issue.record("taken as gRPC")
      return
    }
  }

  @Test("gRPC's content types are", arguments: ["application/grpc", "application/grpc+proto", "application/grpc;x=y"])
  func grpcContentType(value: String) {
    guard case .call = head(["content-type": value]).verdict else {
      Issue.record("not taken as gRPC")
      return
    }
  }

  @Test("An unknown method is unimplemented and named", arguments: ["/t.T/Nope", "/t.T/Ech", "/t.T/Echo/", "/", "*"])
  func unknownMethod(path: String) {
    let error = refusal(head([":path": path]))
    #expect(error?.code == .unimplemented)
    #expect(error?.message.contains(path) == true)
  }

  @Test("An unknown encoding is unimplemented and the known ones are named")
  func encoding() {
    let error = refusal(head(["grpc-encoding": "snappy"]))
    #expect(error?.code == .unimplemented)
    #expect(error?.metadata["grpc-accept-encoding"]?.contains("identity") == true)
    #expect(refusal(head(["grpc-encoding": "identity"])) == nil)
  }

  @Test("A malformed timeout and malformed base64 end the call")
  func malformed() {
    #expect(refusal(head(["grpc-timeout": "1 S"]))?.code == .internal)
    #expect(refusal(head(["x-b-bin": "?"]))?.code == .internal)
  }

  @Test("A head that is used again knows nothing of the request before")
  func reset() {
    var head = head(["grpc-timeout": "1S", "grpc-encoding": "snappy", "x-b-bin": "?"])
    head.reset()
    #expect(head.fields.isEmpty)
    receive(&head, ":method", "POST")
    receive(&head, ":path", "/t.T/Other")
    receive(&head, "content-type", "application/grpc")
    guard case .call(let route, nil) = head.verdict else {
      Issue.record("no call: \(head.verdict)")
      return
    }
    #expect(route.method.path == "/t.T/Other")
  }

  @Test("The router finds each of many paths and no other")
  func manyPaths() {
    let paths = (0..<200).map { "/latchkey.test.v1.Service\($0 % 7)/Method\($0)" }
    let router = Router(
      paths.map { path in
        .unary(RPCMethod(path: path, kind: .unary)) { (request: Blob, _) async throws(RPCError) -> Blob in request }
      }
    )
    func find(_ path: String) -> String? {
      var path = path
      return path.withUTF8 { unsafe router[UnsafeRawBufferPointer($0)]?.method.path }
    }
    for path in paths {
      #expect(find(path) == path)
      #expect(find(path + "x") == nil)
      #expect(find(String(path.dropLast())) != path)
    }
    #expect(find("") == nil)
  }
}
