import Callers
import Glibc
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import TransportServer

@Suite("A listening socket") struct ListenerTests {
  /// Whether this machine has an IPv6 of its own.
  private static let hasIPv6 = (try? Listener(host: "::1", port: 0)) != nil
  private static let hosts = ["127.0.0.1", "localhost"] + (hasIPv6 ? ["::1"] : [])

  private func connect(_ address: SocketAddress, from source: String? = nil) async throws -> any Channel {
    var bootstrap = ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
    if let source { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: source, port: 0)) }
    return try await bootstrap.connect(to: address).get()
  }

  private func accepted(_ listener: Listener) -> AsyncStream<AcceptedSocket> {
    let (stream, continuation) = AsyncStream.makeStream(of: AcceptedSocket.self)
    listener.start { continuation.yield($0) }
    return stream
  }

  @Test("Says who has come, on loopback of both families and by a name", arguments: hosts)
  func addresses(host: String) async throws {
    let listener = try Listener(host: host, port: 0)
    #expect(listener.address.port ?? 0 > 0)
    var sockets = accepted(listener).makeAsyncIterator()
    let client = try await connect(listener.address)
    let socket = try #require(await sockets.next())
    #expect(socket.address == client.localAddress)
    // As the bytes say it, and as the text does.
    let text = try #require(client.localAddress?.ipAddress)
    #expect(socket.address?.networkAddress == NetworkAddress(text) && NetworkAddress(text) != nil)
    socket.close()
    try await client.closeFuture.get()
    await listener.close()
  }

  @Test("An IPv4 address that comes to a port of IPv6 is one of IPv4", .enabled(if: hasIPv6))
  func mapped() async throws {
    let listener = try Listener(host: "::", port: 0)
    var sockets = accepted(listener).makeAsyncIterator()
    let client = try await connect(
      SocketAddress(ipAddress: "127.0.0.1", port: #require(listener.address.port)), from: "127.0.0.5")
    let socket = try #require(await sockets.next())
    #expect(socket.address?.networkAddress == NetworkAddress("127.0.0.5"))
    try await client.close()
    await listener.close()
  }

  @Test("A port that is taken is an error with its number, and an address of another machine as well")
  func taken() async throws {
    let listener = try Listener(host: "127.0.0.1", port: 0)
    #expect { try Listener(host: "127.0.0.1", port: #require(listener.address.port)) } throws: { error in
      (error as? IOError)?.errnoCode == EADDRINUSE
    }
    #expect { try Listener(host: "192.0.2.1", port: 0) } throws: { error in
      (error as? IOError)?.errnoCode == EADDRNOTAVAIL
    }
    await listener.close()
  }

  @Test("The kernel keeps little of what a peer sends ahead, however fast it was read before")
  func sentAhead() async throws {
    let listener = try Listener(host: "127.0.0.1", port: 0)
    var sockets = accepted(listener).makeAsyncIterator()
    let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
    defer { close(client) }
    var small: CInt = 64 * 1024
    try #require(unsafe setsockopt(client, SOL_SOCKET, SO_SNDBUF, &small, socklen_t(MemoryLayout<CInt>.size)) == 0)
    let connected = unsafe listener.address.withSockAddr { unsafe Glibc.connect(client, $0, socklen_t($1)) }
    #expect(connected == 0 || errno == EINPROGRESS)
    let server = try #require(await sockets.next())
    try #require(fcntl(server.number, F_SETFL, O_NONBLOCK) == 0)
    var bytes = [UInt8](repeating: 0, count: 64 * 1024)
    /// Sends as much as is taken, until nothing has been for so many looks.
    func send(looks: Int) async throws -> Int {
      var (sent, idle) = (0, 0)
      while idle < looks {
        let count = unsafe Glibc.send(client, bytes, bytes.count, CInt(MSG_NOSIGNAL))
        if count > 0 { (sent, idle) = (sent + count, 0) } else { idle += 1 }
        if count < 0, looks > 1 { try await Task.sleep(for: .milliseconds(10)) }
      }
      return sent
    }
    // The kernel's own buffer grows by this, to ten megabytes.
    for _ in 0..<1000 {
      _ = try await send(looks: 1)
      while unsafe read(server.number, &bytes, bytes.count) > 0 {}
    }
    let sent = try await send(looks: 50)
    #expect(sent > 0 && sent < 8 * Int(Limits.socketBytes))
    await listener.close()
  }

  @Test("Closes while it waits for somebody, and before it has begun", .timeLimit(.minutes(1)))
  func closes() async throws {
    for wait in [0, 20] {
      let listener = try Listener(host: "127.0.0.1", port: 0)
      var sockets = accepted(listener).makeAsyncIterator()
      let client = try await connect(listener.address)
      _ = await sockets.next()
      // It is in the kernel by then, or on its way there.
      try await Task.sleep(for: .milliseconds(wait))
      await listener.close()
      try await client.closeFuture.get()
    }
    await (try Listener(host: "127.0.0.1", port: 0)).close()
  }

  @Test("Every connection is accepted, and none twice, while a thousand come and go")
  func thousand() async throws {
    let listener = try Listener(host: "127.0.0.1", port: 0)
    var sockets = accepted(listener).makeAsyncIterator()
    var seen: Set<Int> = []
    for _ in 0..<1000 {
      let client = try await connect(listener.address)
      let socket = try #require(await sockets.next())
      #expect(socket.address == client.localAddress)
      seen.insert(socket.address?.port ?? 0)
      try await client.close()
    }
    #expect(!seen.contains(0))
    await listener.close()
  }

  @Test("What was accepted is closed when nobody wants it, and not when somebody has taken it")
  func dropped() async throws {
    let listener = try Listener(host: "127.0.0.1", port: 0)
    var sockets = accepted(listener).makeAsyncIterator()
    let client = try await connect(listener.address)
    _ = await sockets.next()
    try await client.closeFuture.get()
    let kept = try await connect(listener.address)
    let descriptor = try #require(await sockets.next()?.take())
    #expect(kept.isActive && fcntl(descriptor, F_GETFD) == FD_CLOEXEC)
    close(descriptor)
    try await kept.closeFuture.get()
    await listener.close()
  }

  @Test("What its peer has reset cannot be taken")
  func reset() async throws {
    let listener = try Listener(host: "127.0.0.1", port: 0)
    var sockets = accepted(listener).makeAsyncIterator()
    let client = try await connect(listener.address)
    let socket = try #require(await sockets.next())
    try await #require(client as? any SocketOptionProvider).setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
    try await client.close()
    #expect(socket.take() == nil && socket.take() == nil)
    await listener.close()
  }
}
