internal import Callers
internal import Logging
internal import NIOCore

/// Takes the PROXY protocol's header off the start of a trusted proxy's connection, before TLS and before anybody asks
/// what the connection speaks, and leaves.
///
/// Waits no longer than the protocol's detection does, whose time is running meanwhile.
final class ProxyHeaderHandler: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let isRequired: Bool
  private let logger: Logger
  private var received = ByteBuffer()
  private var isDecided = false

  init(isRequired: Bool, logger: Logger) {
    self.isRequired = isRequired
    self.logger = logger
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard !isDecided else { return context.fireChannelRead(data) }
    var bytes = unwrapInboundIn(data)
    received.writeBuffer(&bytes)
    switch ProxyHeader.parse(Array(received.readableBytesView)) {
    case .incomplete: return
    case .absent where !isRequired: break
    case .absent, .malformed:
      isDecided = true
      logger.debug("a proxy's connection has no valid PROXY header")
      return context.close(promise: nil)
    case .present(let byteCount, let client):
      received.moveReaderIndex(forwardBy: byteCount)
      context.fireUserInboundEventTriggered(ProxyHeaderRead(client: client))
    }
    isDecided = true
    let rest = received
    received = ByteBuffer()
    if rest.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(rest)) }
    context.pipeline.syncOperations.removeHandler(self, promise: nil)
  }
}
