import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension QRSessionAPI: QRV1.InstanceService {
  /// Tells another instance what this one changes.
  package func wake(
    _ request: QRV1.WakeRequest,
    responses: ResponseWriter<QRV1.WakeResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    guard let shared else { throw RPCError(.failedPrecondition, "this instance is the only one") }
    guard let box = shared.wakes.open() else {
      throw RPCError(.resourceExhausted, "too many instances listen", retryAfter: .seconds(1))
    }
    defer { shared.wakes.close(box) }
    // So that whoever listens knows that it does.
    try await responses.write(QRV1.WakeResponse())
    while let changes = await box.next() {
      // The first of many goes at once; what comes with it goes together.
      var rest = changes[...]
      repeat {
        let batch = rest.prefix(Limits.changesPerWake)
        rest = rest.dropFirst(batch.count)
        try await responses.write(QRV1.WakeResponse(changes: batch.map { QRV1.SessionChange($0) }))
      } while !rest.isEmpty
      if !changes.isEmpty, (try? await Task.sleep(for: Limits.wakeGathering)) == nil { break }
    }
    throw RPCError(.unavailable, "the instance is stopping")
  }
}

extension QRV1.SessionChange {
  init(_ change: QRChange) {
    self.init(
      pollHash: change.pollSecret.bytes,
      version: change.version,
      state: QRV1.SessionState(rawValue: Int32(change.state.rawValue)),
      issuedAt: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: change.issued.millisecondsSinceEpoch),
      expiresAt: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: change.expires.millisecondsSinceEpoch),
      scannerMask: change.mask?.description ?? ""
    )
  }
}

extension QRChange {
  /// Nil for what no instance of this release says.
  init?(_ change: QRV1.SessionChange) {
    guard let secret = Digest256(change.pollHash), change.version > 0,
      let state = QRSessionState(rawValue: Int(change.state.rawValue)),
      let issued = change.issuedAt?.millisecondsSinceEpoch, let expires = change.expiresAt?.millisecondsSinceEpoch
    else { return nil }
    self.init(
      pollSecret: secret, version: change.version, state: state,
      issued: Timestamp(millisecondsSinceEpoch: issued),
      expires: Timestamp(millisecondsSinceEpoch: expires),
      mask: DisplayText(change.scannerMask))
  }
}
