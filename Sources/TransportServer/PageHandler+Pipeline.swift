internal import NIOCore
internal import NIOHTTP1

extension PageHandler {
  /// Adds the HTTP/1.1 codec and a page handler at the end of a pipeline.
  ///
  /// Of NIO's helpers only the codec: its others trap when an answer is written out of order, and a peer has ways to
  /// end a connection in the midst of one.
  static func addHandlers(
    to pipeline: ChannelPipeline.SynchronousOperations,
    environment: ServerEnvironment,
    executor: EventLoopTaskExecutor,
    peer: ConnectionPeer
  ) throws {
    let pages = PageHandler(environment: environment, executor: executor, peer: peer)
    try pipeline.addHandler(RequestPacer(pages))
    var bounds = NIOHTTPDecoderLimitConfiguration()
    bounds.maxHeaderFieldSize = Limits.pageHeaderBytes
    bounds.maxHeaderListSize = Limits.pageHeaderBytes
    bounds.maxHeaderFieldCount = Limits.pageHeaderFields
    try pipeline.configureHTTPServerPipeline(
      withPipeliningAssistance: false,
      withErrorHandling: false,
      withOutboundHeaderValidation: true,
      withEncoderConfiguration: .init(),
      withDecoderLimitConfiguration: bounds
    )
    try pipeline.addHandler(pages)
  }
}
