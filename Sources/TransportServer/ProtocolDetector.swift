internal import Callers
internal import GRPC
internal import NIOCore
internal import NIOHTTP1
internal import Transport

/// Finds out what a new connection speaks, sets up its pipeline and leaves.
///
///     TLS: by ALPN      cleartext: by the first bytes
///                ╲      ╱
///        HTTP/2 (client preface) or HTTP/1.1 (anything else, unless its first line says that it is not)
final class ProtocolDetector: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  /// RFC 9113 §3.4. The first three bytes already differ from every HTTP/1.1 method.
  private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

  /// RFC 9112 §2.3, without the last digit.
  private static let version = Array("HTTP/1.".utf8)

  private let environment: ServerEnvironment
  private let executor: EventLoopTaskExecutor
  private var received = ByteBuffer()
  private var tlsNames: [String] = []
  private var proxyHeader: ProxyHeaderRead?
  private var isDecided = false
  /// There is no place for the connection, and what it asks for is told so.
  private var isTurnedAway: Bool
  private var timer: LoopTimer?
  /// Whether the connection was asked to give something up, and has not looked yet.
  private var isAsked = false
  /// Bytes that wait with the TLS handshake, and against whom they count.
  private var waiting: (bytes: Int, account: SourceAccount)?

  init(environment: ServerEnvironment, executor: EventLoopTaskExecutor, isTurnedAway: Bool = false) {
    self.isTurnedAway = isTurnedAway
    self.environment = environment
    self.executor = executor
  }

  func handlerAdded(context: ChannelHandlerContext) {
    timer = executor.schedule(at: context.eventLoop.now + Limits.prefaceTimeout) {
      context.close(promise: nil)
    }
  }

  func handlerRemoved(context: ChannelHandlerContext) {
    timer?.cancel()
    timer = nil
    countWaiting(0, context)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    var bytes = unwrapInboundIn(data)
    guard !isDecided else {
      context.fireChannelRead(data)
      return
    }
    received.writeBuffer(&bytes)
    let prefix = received.readableBytesView.prefix(Self.preface.count)
    guard Self.preface.starts(with: prefix) else {
      // RFC 9113 §3.4: a wrong preface ends the connection. An answer in HTTP/1.1 would be noise to that peer.
      guard mayBeHTTP1 else {
        isDecided = true
        return context.close(promise: nil)
      }
      return setUp(context, isHTTP2: false)
    }
    if prefix.count == Self.preface.count { setUp(context, isHTTP2: true) }
  }

  /// Whether what came may be a request of HTTP/1: no such request has the method that RFC 9113 §11.6 keeps for the
  /// preface, and its first line, where it is whole, ends in such a version (RFC 9112 §3).
  private var mayBeHTTP1: Bool {
    let bytes = received.readableBytesView
    guard !bytes.starts(with: Self.preface.prefix(4)) else { return false }
    guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { return true }
    let isEndedByTwo = bytes[..<end].last == UInt8(ascii: "\r")
    let version = bytes[..<(isEndedByTwo ? end - 1 : end)].suffix(Self.version.count + 1)
    // An empty line ahead of a request is passed over (§2.2).
    return version.isEmpty || version.starts(with: Self.version)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if let header = event as? ProxyHeaderRead {
      proxyHeader = header
      guard let client = header.client, !isTurnedAway else { return }
      executor.source = .address(client.address.source)
      isTurnedAway = !environment.connectionMoved(context.channel, to: client.address)
      if isTurnedAway, !environment.turnAway(context.channel) { context.close(promise: nil) }
    } else if let handshake = event as? TLSHandshakeFinished {
      tlsNames = handshake.peerNames
      // RFC 9113 §3.3: HTTP/2 over TLS is what ALPN says, never what the bytes look like.
      setUp(context, isHTTP2: handshake.applicationProtocol == .http2)
    } else if let handshake = event as? TLSHandshakeWaits {
      countWaiting(handshake.bytes, context)
    } else if let shed = event as? ServerShed, waiting != nil, !isAsked {
      isAsked = true
      executor.turns.soon { [self] in
        isAsked = false
        // Sources hold more than their share, and this connection may have some of it.
        guard let shed = shed.isOver ? environment.budget.wantedBack : shed else { return }
        guard let waiting, let excess = shed.bytes(of: waiting.account), excess.take(waiting.bytes) else { return }
        context.close(promise: nil)
      }
    } else if event is ServerDrain || event is ServerDisplacement {
      // Nothing was asked for yet.
      context.close(promise: nil)
    } else if case ChannelEvent.inputClosed = event {
      executor.turns.soon { context.close(promise: nil) }
    } else {
      context.fireUserInboundEventTriggered(event)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    environment.logger.debug("connection failed", metadata: ["error": "\(error)"])
    context.close(promise: nil)
  }

  /// Tells the server's budget what waits with the handshake.
  func countWaiting(_ bytes: Int, _ context: ChannelHandlerContext) {
    if let waiting { environment.budget.buffered(-waiting.bytes, waiting.account) }
    waiting = nil
    guard bytes > 0 else { return }
    let address = proxyHeader?.client?.address ?? context.remoteAddress?.networkAddress
    let account = account(of: address)
    environment.budget.buffered(bytes, account)
    waiting = (bytes, account)
  }

  /// Who the connection is of: as the PROXY protocol says, or else its other end.
  private func peer(_ address: SocketAddress?) -> ConnectionPeer {
    if let client = proxyHeader?.client {
      return ConnectionPeer(
        Peer(address: client.address.text, port: client.port, tlsNames: tlsNames),
        account: account(of: client.address)
      )
    }
    let text = address?.ipAddress ?? ""
    let proxies = environment.configuration.proxies
    let proxy = proxyHeader == nil ? NetworkAddress(text).flatMap { proxies.trusts($0) ? $0 : nil } : nil
    return ConnectionPeer(
      Peer(address: text, port: address?.port ?? 0, tlsNames: tlsNames),
      proxy: proxy,
      account: account(of: NetworkAddress(text))
    )
  }

  private func source(of peer: ConnectionPeer, isHTTP2: Bool) -> TurnSource {
    guard peer.proxy != nil else { return .address(peer.account.source) }
    let connection = ObjectIdentifier(executor)
    return isHTTP2 && environment.configuration.proxies.field != .none ? .shared(connection) : .connection(connection)
  }

  private func account(of address: NetworkAddress?) -> SourceAccount {
    isTurnedAway ? SourceAccount(isTurnedAway: true) : environment.budget.sources.account(of: address)
  }

  private func setUp(_ context: ChannelHandlerContext, isHTTP2: Bool) {
    guard !isDecided else { return }
    isDecided = true
    let peer = peer(context.remoteAddress)
    executor.source = source(of: peer, isHTTP2: isHTTP2)
    if peer.proxy != nil {
      environment.budget.table.share(context.channel)
      peer.account.isProxys.store(true, ordering: .relaxed)
    }
    do {
      let pipeline = context.pipeline.syncOperations
      if isHTTP2 {
        try pipeline.addHandler(
          ServerConnection(
            environment: environment,
            executor: executor,
            peer: peer,
            isNextToSocket: environment.configuration.tls == nil
          ),
          position: .after(self)
        )
      } else {
        try PageHandler.addHandlers(to: pipeline, environment: environment, executor: executor, peer: peer)
        // HTTP/1.1 has no PING.
        context.channel.askForSignsOfLife()
      }
      if received.readableBytes > 0 {
        context.fireChannelRead(wrapInboundOut(received))
        context.fireChannelReadComplete()
        received.clear()
      }
      pipeline.removeHandler(self, promise: nil)
    } catch {
      environment.logger.error("no pipeline", metadata: ["error": "\(error)"])
      context.close(promise: nil)
    }
  }
}
