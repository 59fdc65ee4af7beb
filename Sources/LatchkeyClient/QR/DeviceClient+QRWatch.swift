import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Follows a code by one stream and calls `changed` with each state, until the code is decided or over. Collects
  /// nothing: ``awaitQRSignIn(_:changed:)`` does.
  ///
  /// A stream that breaks off is taken up again.
  public func watchQRCode(
    _ ticket: QRTicket,
    changed: @escaping @Sendable (QRProgress) -> Void
  ) async throws(ClientError) {
    let service = QRV1.QrSessionServiceClient(channel: qr)
    let request = QRV1.WatchSessionRequest(deviceCode: ticket.deviceCode)
    let cell = Cell.read(ticket.deviceCode).cell
    var seen: Int64 = 0
    var pause = Backoff()
    while true {
      let last = seen
      let start = ContinuousClock.now
      let failure: CallFailure
      do throws(ClientError) {
        let end = try await open(timeout: Limits.watchTimeout) { options throws(RPCError) in
          try await service.watchSession(request, options: options.naming(cell)) { stream throws(RPCError) in
            var latest = (version: last, isOver: false)
            for try await message in stream {
              guard message.version > latest.version else { continue }
              let progress = QRProgress(watched: message)
              latest = (message.version, progress.map { $0 != .pending && !$0.isScanned } ?? false)
              if let progress { changed(progress) }
            }
            return latest
          }
        }
        if end.isOver { return }
        seen = end.version
        pause.watched(news: seen > last, since: start)
        failure = CallFailure(RPCError(.unavailable, "the service ends the watch, but the code is not decided"))
      } catch {
        guard case .call(let call) = error, call.isRetryable else { throw error }
        pause.watched(news: false, since: start)
        failure = call
      }
      guard let next = pause.next(atLeast: failure.retryAfter) else { throw .call(failure) }
      try await sleep(next)
    }
  }
}

extension QRProgress {
  fileprivate var isScanned: Bool { if case .scanned = self { true } else { false } }

  /// Nil for a state that this version does not know.
  fileprivate init?(watched message: QRV1.WatchSessionResponse) {
    switch message.state {
    case .pending: self = .pending
    case .scanned: self = .scanned(by: message.scannerMask)
    // Agreed to, and not collected.
    case .confirmed: self = .agreed(by: message.scannerMask)
    case .denied: self = .denied
    case .expired: self = .expired
    case .cancelled: self = .cancelled
    case .consumed: self = .consumed
    default: return nil
    }
  }
}
