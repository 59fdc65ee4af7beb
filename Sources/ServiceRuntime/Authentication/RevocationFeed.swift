package import GRPC
package import LatchkeyModel
internal import LatchkeyProtos
package import Logging
internal import Synchronization

/// Knows which sessions have ended, because identity tells so as it happens: a session that ends there gives no access
/// here some milliseconds later (R14).
///
/// Identity says at least every second that it is there. When it falls silent for `Limits.revocationGrace`, an end may
/// have been missed: `isCurrent` is false and no token is accepted until it is heard again. The grace lets identity
/// restart without a gap; that much later, at most, an ended session is refused even though the network is cut.
package final class RevocationFeed: SessionAuthority {
  private let client: IdentityV1.GrantServiceClient
  private let cell: Cell?
  private let logger: Logger
  private let revoked = RevokedSessions()

  /// - Parameter cell: that identity has to be of: while one of another cell answers, nothing is heard. Nil: of any.
  package init(identity channel: any RPCChannel, cell: Cell? = nil, logger: Logger) {
    client = IdentityV1.GrantServiceClient(channel: channel)
    self.cell = cell
    self.logger = logger
  }

  package func hasEnded(_ subject: AuthenticatedSubject) -> Bool { revoked.contains(subject.sessionID) }

  package var isCurrent: Bool {
    guard let heard = revoked.heard else { return false }
    return ContinuousClock.now < heard + Limits.revocationGrace
  }

  /// Whether identity has been heard since the start.
  var hasBegun: Bool { revoked.heard != nil }

  /// Listens until cancelled, again and again. To be run once, by the service's lifecycle.
  package func run() async {
    var warning = PatientWarning()
    // Which an identity of another cell has said.
    var isMistakeSaid = false
    while !Task.isCancelled {
      let before = revoked.heard
      let error = await listenWhileHeard()
      if revoked.heard != before {
        warning.succeeded()
        isMistakeSaid = false
      }
      // Another word than that nobody answers, and one that nobody has to wait for.
      let isMistake = error.code == .failedPrecondition && !isMistakeSaid
      isMistakeSaid = isMistakeSaid || isMistake
      if !Task.isCancelled, warning.failed() || isMistake {
        logger.warning(
          "identity does not tell which sessions end; trying again",
          metadata: ["code": "\(error.code)", "reason": "\(error.message)"]
        )
      }
      let isRefused = [.unauthenticated, .permissionDenied, .failedPrecondition].contains(error.code)
      try? await Task.sleep(for: isRefused ? Limits.revocationRefusedInterval : Limits.revocationRetryInterval)
    }
  }

  /// Listens until the stream ends or falls silent: a connection that is cut may take minutes to say so itself.
  private func listenWhileHeard() async -> RPCError {
    await withTaskGroup(of: RPCError.self) { group in
      group.addTask { await self.listen() }
      group.addTask {
        let start = ContinuousClock.now
        while !Task.isCancelled {
          try? await Task.sleep(for: Limits.revocationSilence / 4)
          if ContinuousClock.now > max(start, self.revoked.heard ?? start) + Limits.revocationSilence { break }
        }
        return RPCError(.unavailable, "nothing was heard for a while")
      }
      let first = await group.next()
      group.cancelAll()
      return first ?? RPCError(.cancelled, "nothing listens")
    }
  }

  private func listen() async -> RPCError {
    do throws(RPCError) {
      let request = IdentityV1.WatchRevocationsRequest(identityCell: cell?.description ?? "")
      try await client.watchRevocations(request) { responses throws(RPCError) in
        for try await response in responses {
          self.revoked.take(
            response.endedSids,
            isCaughtUp: response.caughtUp,
            retention: .seconds(response.retentionSeconds),
            at: .now
          )
        }
      }
      return RPCError(.unavailable, "identity ended the watch")
    } catch {
      return error
    }
  }
}
