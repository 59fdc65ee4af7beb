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
    let proof = try proof(request.codeVerifier, nil, request.deviceProof, request.deviceCode)
    let code = try deviceCode(request.deviceCode)
    let secret = Self.digest(code.bytes)
    try await meetCurrent(code, secret, from: context.peer)
    try await responses.serve(SessionWatch(self, secret, proof, responses, context))
  }

  /// Sends one state. True when it is the last.
  func report(
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
    return view.state.isFinal || response.tokens != nil || response.confirmation != nil
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
      profile: poll.profile,
      confirmation: poll.confirmation,
      storageNamespace: poll.storageNamespace
    )
  }
}
