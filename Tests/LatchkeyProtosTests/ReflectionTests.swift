import GRPC
import NIOCore
import Testing

@testable import LatchkeyProtos

@Suite("Server reflection")
struct ReflectionTests {
  let index = ReflectionIndex(files: LatchkeyDescriptors.files, services: ["latchkey.qr.v1.QrSessionService"])

  @Test("a symbol is answered with its file first and every import after it, once")
  func symbol() {
    guard case .files(let files) = index.answer(.symbol("latchkey.qr.v1.QrSessionService.PollSession")) else {
      Issue.record("no file")
      return
    }
    // FileDescriptorProto begins with field 1, the name.
    let names = files.map { String(decoding: $0.dropFirst(2).prefix(Int($0[1])), as: UTF8.self) }
    #expect(names.first == "latchkey/qr/v1/qr_session_service.proto")
    #expect(names.contains("latchkey/common/v1/common.proto"))
    #expect(names.contains("google/protobuf/timestamp.proto"))
    #expect(Set(names).count == names.count)
  }

  @Test("only what the server serves is listed")
  func services() {
    #expect(index.answer(.services) == .services(["latchkey.qr.v1.QrSessionService"]))
  }

  @Test("what is not there is NOT_FOUND, and a request that asks nothing is INVALID_ARGUMENT")
  func failures() {
    #expect(index.answer(.file("no.proto")) == .failure(.notFound, "no such file"))
    #expect(index.answer(.symbol("latchkey.qr.v1.QrSessionService.No")) == .failure(.notFound, "no such symbol"))
    #expect(index.answer(.extensions) == .failure(.notFound, "there are no extensions"))
    #expect(index.answer(.none) == .failure(.invalidArgument, "the request asks nothing"))
  }

  @Test("every import of every file is there, so that a tool can resolve all types")
  func complete() {
    let names = Set(LatchkeyDescriptors.files.map(\.name))
    for file in LatchkeyDescriptors.files {
      #expect(names.isSuperset(of: file.imports), "\(file.name)")
      #expect(!file.descriptor.isEmpty, "\(file.name)")
    }
  }

  @Test("both versions of the protocol are served, and name themselves")
  func routes() {
    let paths = ReflectionRoutes.describing([]).map(\.method.path)
    #expect(
      paths == [
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      ])
  }
}
