import LatchkeyModel
import NIOCore
import NIOPosix
import Testing

@testable import Transfers

@Suite("Transfers")
struct TransferTests {
  /// A server of one connection after the other: reads what comes until `isComplete`, then writes what it is told to.
  private final class Server: Sendable {
    let channel: any Channel
    var address: String { "http://127.0.0.1:\(channel.localAddress?.port ?? 0)/path" }

    /// - Parameter greeting: what the server says before anything is asked.
    init(_ answer: String, greeting: String = "", closes: Bool = true) async throws {
      channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        .childChannelInitializer { channel in
          channel.pipeline.addHandler(Answering(answer, greeting: greeting, closes: closes))
        }
        .bind(host: "127.0.0.1", port: 0).get()
    }

    deinit { channel.close(promise: nil) }
  }

  private final class Answering: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let answer: String
    private let greeting: String
    private let closes: Bool

    init(_ answer: String, greeting: String, closes: Bool) {
      self.answer = answer
      self.greeting = greeting
      self.closes = closes
    }

    func channelActive(context: ChannelHandlerContext) {
      if !greeting.isEmpty { context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: greeting)), promise: nil) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      if answer.isEmpty { return }
      context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: answer)), promise: nil)
      if closes { context.close(promise: nil) }
    }
  }

  private func head(_ status: String, _ more: String = "") -> String {
    "HTTP/1.1 \(status)\r\nConnection: close\r\n\(more)\r\n"
  }

  @Test("An answer comes with its status and body, whatever the status is")
  func answers() async throws {
    let client = TransferClient()
    defer { client.stop() }
    for status in [200, 404, 503] {
      let server = try await Server(head("\(status) Some", "Content-Length: 5\r\n") + "hello")
      let answer = try await client.send(HTTPRequest(server.address, body: Array("body".utf8)))
      #expect(answer == HTTPResponse(status: status, body: Array("hello".utf8)))
    }
  }

  @Test("A redirect is an answer: nobody is sent elsewhere")
  func redirect() async throws {
    let client = TransferClient()
    defer { client.stop() }
    let target = try await Server(head("200 OK", "Content-Length: 0\r\n"))
    let server = try await Server(head("302 Found", "Location: \(target.address)\r\nContent-Length: 0\r\n"))
    #expect(try await client.send(HTTPRequest(server.address)).status == 302)
  }

  @Test("An endless answer ends at the bound")
  func tooLong() async throws {
    let client = TransferClient()
    defer { client.stop() }
    let server = try await Server(head("200 OK") + String(repeating: "x", count: Limits.answerBytes + 1))
    let error = await #expect(throws: TransferError.self) { try await client.send(HTTPRequest(server.address)) }
    #expect(error?.isRetryable == false)
  }

  @Test("A server that says nothing is given up in time, one that is not there at once; both may be tried again")
  func silence() async throws {
    let client = TransferClient(timeout: .milliseconds(300))
    defer { client.stop() }
    let server = try await Server("", closes: false)
    let start = ContinuousClock.now
    let silent = await #expect(throws: TransferError.self) { try await client.send(HTTPRequest(server.address)) }
    #expect(silent?.isRetryable == true && ContinuousClock.now - start < .seconds(5))
    let gone = await #expect(throws: TransferError.self) { try await client.send(HTTPRequest("http://127.0.0.1:1/")) }
    #expect(gone?.isRetryable == true)
  }

  @Test("Other protocols than HTTP are not spoken")
  func protocols() async throws {
    let client = TransferClient()
    defer { client.stop() }
    for address in ["file:///etc/passwd", "gopher://127.0.0.1:1/", "ftp://127.0.0.1/", "nonsense"] {
      let error = await #expect(throws: TransferError.self) { try await client.send(HTTPRequest(address)) }
      #expect(error?.isRetryable == false, "\(address)")
    }
  }

  @Test("Behind a full queue and after the end callers are told so at once")
  func bounded() async throws {
    let client = TransferClient(threads: 1, queue: 1, timeout: .seconds(2))
    let server = try await Server("", closes: false)
    let failures = await withTaskGroup(of: TransferError?.self) { group in
      for _ in 0..<8 {
        group.addTask {
          do throws(TransferError) {
            _ = try await client.send(HTTPRequest(server.address))
            return nil
          } catch {
            return error
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(failures.filter { $0?.description == "too many transfers wait" }.count >= 5)
    client.stop()
    let error = await #expect(throws: TransferError.self) { try await client.send(HTTPRequest(server.address)) }
    #expect(error == TransferError("transfers have stopped", isRetryable: false))
  }

  @Test("A mail server that cannot upgrade to TLS is told nothing: neither user nor mail")
  func noDowngrade() async throws {
    let client = TransferClient()
    defer { client.stop() }
    let server = try await Server("250 mail.example\r\n", greeting: "220 mail.example ESMTP\r\n", closes: false)
    let mail = MailSubmission(
      server: .init(
        host: "127.0.0.1", port: server.channel.localAddress?.port ?? 0, security: .starttls, user: "ada",
        password: RedactedSecret("secret")),
      sender: "a@example.com", recipient: "b@example.com", text: Array("Subject: x\r\n\r\nx\r\n".utf8))
    let error = await #expect(throws: TransferError.self) { try await client.send(mail) }
    #expect(error?.isRetryable == false && error?.description.contains("secret") == false)
  }
}
