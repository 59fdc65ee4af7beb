internal import NIOCore

/// Tells the page handler behind it that bytes of a request come, before they are a request.
final class RequestBeginning: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = ByteBuffer

  private let pages: PageHandler

  init(_ pages: PageHandler) {
    self.pages = pages
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    pages.receivesBytes(unwrapInboundIn(data).readableBytes)
    context.fireChannelRead(data)
  }
}
