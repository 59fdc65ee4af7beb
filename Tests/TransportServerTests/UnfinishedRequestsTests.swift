import Callers
import GRPC
import HTTP2
import NIOCore
import Testing
import TransportTestSupport

@testable import TransportServer

/// Peers come from addresses of loopback of their own.
@Suite("Requests whose end does not come", .timeLimit(.minutes(2)))
struct UnfinishedRequestsTests {
  private static let greedy = "127.0.7.3"
  private static let honest = "127.0.7.4"

  private static func isRefused(_ answer: Answer) -> Bool {
    let text = String(decoding: answer.body, as: UTF8.self)
    return answer.status == .resourceExhausted || answer.httpStatus == "503" || text.contains("grpc-status: 8")
  }

  @Test(
    "R50: they take places of calls, of which they make room for who has none",
    arguments: [
      ("/t.T/Echo", "application/grpc"), ("/t.T/Many", "application/grpc"), ("/t.T/Sum", "application/grpc"),
      ("/t.T/Echo", "application/grpc-web"), ("/form", "text/plain"),
    ])
  func silent(path: String, contentType: String) async throws {
    try await TestServer.run({ $0.budget.calls = 8 }) { server in
      let many = try await TestPeer.connect(server.address, from: Self.greedy)
      @Sendable func begin() async throws -> Answer {
        try await many.call(path, [], headers: [("content-type", contentType)], endStream: false)
      }
      try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<8 { group.addTask { try await begin() } }
        try await eventually { server.server.usage.calls == 8 }
        #expect(Self.isRefused(try await begin()))
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        #expect(try await few.call("/t.T/Pause", Blob([1]).frame).status == .ok)
        let first = try #require(try await group.next())
        #expect(Self.isRefused(first))
        await many.close()
        await few.close()
        while (try? await group.next()) != nil {}
      }
      try await eventually { server.server.usage.calls == 0 }
    }
  }

  @Test("R50: those of one source that ask for the server's health are let in up to some, and others' always")
  func essential() async throws {
    try await TestServer.run({ $0.budget.calls = 8 }) { server in
      var peers: [TestPeer] = []
      for _ in 0..<3 { peers.append(try await TestPeer.connect(server.address, from: Self.greedy)) }
      try await withThrowingTaskGroup(of: Answer?.self) { [peers] group in
        for number in 0..<200 {
          group.addTask { try? await peers[number % 3].call("/t.T/Probe", [], endStream: false) }
        }
        // The first of them that has an end.
        let first = try #require(try await group.next())
        #expect(first?.status == .resourceExhausted)
        try await eventually { server.server.usage.refusedCalls >= 200 - Limits.essentialCalls - 8 }
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        #expect(try await few.call("/t.T/Probe", Blob([1]).frame).status == .ok)
        for peer in peers { await peer.close() }
        await few.close()
        while (try? await group.next()) != nil {}
      }
      try await eventually { server.server.usage.calls == 0 }
    }
  }

  @Test("R50: bytes of messages that are not whole make room for others, also where the window is not half full")
  func bytes() async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in
      configuration.budget.connectionBytes = 600_000
      configuration.budget.bufferedBytes = 1_000_000
    }
    try await TestServer.run(limits) { server in
      var greedy: [TestPeer] = []
      for _ in 0..<4 { greedy.append(try await TestPeer.connect(server.address, from: Self.greedy)) }
      let part = Array(Blob([UInt8](repeating: 1, count: 30_000)).frame.prefix(25_000))
      try await withThrowingTaskGroup(of: Bool.self) { [greedy] group in
        for peer in greedy {
          for _ in 0..<20 {
            group.addTask {
              let answer = try? await peer.call("/t.T/Echo", part, endStream: false)
              return answer?.closed == 11 || answer?.status == .resourceExhausted
            }
          }
        }
        // The source is told, by what comes after the room was full.
        #expect(try await group.next() == true)
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        for _ in 0..<5 { #expect(try await few.call("/t.T/Echo", Blob([1]).frame).status == .ok) }
        #expect(server.server.usage.bufferedBytes < 1_250_000)
        for peer in greedy { await peer.close() }
        await few.close()
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.bufferedBytes == 0 }
    }
  }
}

@Suite("Clients of one proxy, on one connection", .timeLimit(.minutes(2)))
struct ClientsOfProxyTests {
  private static let bad = "203.0.113.1"
  private static let good = "203.0.113.2"

  private static func run(_ body: (TestServer, TestPeer) async throws -> Void) async throws {
    let proxies = try TrustedProxies([#require(NetworkRange(networkOrAddress: "127.0.0.0/8"))], field: .forwardedFor)
    try await TestServer.run({ $0.proxies = proxies }) { server in
      let proxy = try await TestPeer.connect(server.address)
      try await body(server, proxy)
      await proxy.close()
    }
  }

  private static func call(
    _ proxy: TestPeer, by client: String, _ path: String, more: [(String, String)] = [], cancelAfter: TimeAmount? = nil,
    cancelCode: HTTP2ErrorCode = .cancel
  ) async throws -> Answer {
    let fields = [("content-type", "application/grpc"), ("x-forwarded-for", client)] + more
    return try await proxy.call(
      path, Blob([1]).frame, headers: fields, cancelAfter: cancelAfter, cancelCode: cancelCode)
  }

  // Some proxies say NO_ERROR for a call that their client has cancelled.
  @Test(
    "R51: one who cancels hundreds of calls is refused for a while, and nobody else notices",
    arguments: [HTTP2ErrorCode.cancel, .noError])
  func cancellations(code: HTTP2ErrorCode) async throws {
    try await Self.run { server, proxy in
      async let neighbour = Self.call(proxy, by: Self.good, "/t.T/Pause")
      for _ in 0..<20 {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<50 {
            group.addTask {
              let pause = TimeAmount.milliseconds(1)
              _ = try await Self.call(proxy, by: Self.bad, "/t.T/Wait", cancelAfter: pause, cancelCode: code)
            }
          }
          try await group.waitForAll()
        }
        var status = try await Self.call(proxy, by: Self.good, "/t.T/Echo").status
        if status == .resourceExhausted {
          // On a busy machine it may have waited for the loop for too long.
          try await Task.sleep(for: .milliseconds(200))
          status = try await Self.call(proxy, by: Self.good, "/t.T/Echo").status
        }
        #expect(status == .ok)
      }
      #expect(try await Self.call(proxy, by: Self.bad, "/t.T/Echo").status == .resourceExhausted)
      #expect(try await neighbour.status == .ok)
      try await Task.sleep(for: .milliseconds(Limits.cancellationRest.nanoseconds / 1_000_000 + 100))
      #expect(try await Self.call(proxy, by: Self.bad, "/t.T/Echo").status == .ok)
      #expect(proxy.lastGoAway == nil)
    }
  }

  @Test("R51: one whose requests have too many fields is refused, and nobody else notices")
  func fields() async throws {
    try await Self.run { _, proxy async throws in
      let many = [("x-many", String(repeating: "x", count: 17_000))]
      for _ in 0..<150 {
        #expect(try await Self.call(proxy, by: Self.bad, "/t.T/Echo", more: many).closed == 11)
      }
      #expect(try await Self.call(proxy, by: Self.good, "/t.T/Echo").status == .ok)
      #expect(proxy.lastGoAway == nil)
    }
  }

  @Test("R51: one who sends a message byte by byte loses that call, and nobody else notices")
  func smallFrames() async throws {
    try await Self.run { server, proxy in
      let fields = [("content-type", "application/grpc"), ("x-forwarded-for", Self.bad)]
      async let slow = proxy.call("/t.T/Echo", [0, 0, 0, 4, 0], headers: fields, endStream: false)
      try await eventually { server.server.usage.calls == 1 }
      let frame: [UInt8] = [0, 0, 1, 0, 0, 0, 0, 0, 1, 7]
      for _ in 0..<7 { try await proxy.send(raw: [[UInt8]](repeating: frame, count: 100).flatMap(\.self)) }
      #expect(try await slow.status == .resourceExhausted)
      #expect(try await Self.call(proxy, by: Self.good, "/t.T/Echo").status == .ok)
      #expect(proxy.lastGoAway == nil)
    }
  }
}
