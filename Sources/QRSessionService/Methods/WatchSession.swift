import GRPC
import LatchkeyModel
import LatchkeyProtos

extension QRSessionAPI {
  /// The state now, each change of it, and the tokens when they are there and the watcher can prove itself. The stream
  /// ends with the session, so it lasts no longer than a code.
  package func watchSession(
    _ request: QRV1.WatchSessionRequest,
    responses: ResponseWriter<QRV1.WatchSessionResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    guard !request.deviceCode.isEmpty else { throw .invalid("device_code", "is what is watched") }
    let proof = try proof(request.codeVerifier)
    guard let code = PollSecret(text: request.deviceCode) else { throw .unknownDeviceCode }
    let secret = Self.digest(code.bytes)
    guard var view = table.view(secret, at: clock.now()) else { throw .unknownDeviceCode }
    var reported: Int64 = 0
    while true {
      if view.version > reported {
        guard try await !report(view, proof, responses, context) else { return }
        reported = view.version
      }
      let due = context.deadline.map { $0 - Limits.answerMargin } ?? .now + Limits.watchLookAround
      switch await table.change(of: secret, after: view.version, until: due, at: clock.now()) {
      case .changed:
        break
      case .timedOut:
        // Without a deadline this is only a look around; with one, the client knows when it is over.
        if context.deadline != nil { return }
      case .displaced:
        throw RPCError(.aborted, "too many others watch the session")
      case .stopping:
        throw RPCError(.unavailable, "the service is stopping: watch again elsewhere")
      case .cancelled:
        throw RPCError(.cancelled, "the watch was cancelled")
      }
      // Forgotten: it ended, and whoever watches has been told.
      guard let next = table.view(secret, at: clock.now()) else { return }
      view = next
    }
  }

  /// Sends one state. True when it is the last.
  private func report(
    _ view: PollView,
    _ proof: RedeemProof?,
    _ responses: ResponseWriter<QRV1.WatchSessionResponse>,
    _ context: ServerContext
  ) async throws(RPCError) -> Bool {
    let isRedeemable = view.state == .confirmed || view.state == .consumed
    let response =
      if isRedeemable, proof != nil {
        try await answer(view, .zero, proof, context)
      } else {
        QRV1.PollSessionResponse(view, interval: .zero)
      }
    try await responses.write(QRV1.WatchSessionResponse(response))
    return view.state.isFinal || response.tokens != nil
  }
}

extension QRV1.WatchSessionResponse {
  init(_ poll: QRV1.PollSessionResponse) {
    self.init(
      state: poll.state,
      version: poll.version,
      interval: poll.interval,
      scannerMask: poll.scannerMask,
      tokens: poll.tokens,
      subject: poll.subject,
      profile: poll.profile
    )
  }
}
