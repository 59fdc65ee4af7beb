import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension QRSessionAPI {
  package func cancelSession(
    _ request: QRV1.CancelSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.CancelSessionResponse {
    guard !request.deviceCode.isEmpty else { throw .invalid("device_code", "is what is cancelled") }
    let code = try deviceCode(request.deviceCode)
    let secret = Self.digest(code.bytes)
    try await meetCurrent(code, secret, from: context.peer)
    if table.view(secret, at: clock.now()) == nil {
      guard admission.mayLookUpUnknown(from: context.peer, at: clock.now()) else { throw .unknownDeviceCode }
    }
    let found = try await stored { () throws(StorageError) in try await self.store.session(pollSecret: secret) }
    guard let found else { throw .unknownDeviceCode }
    try await cancel(found, address: context.peer.address)
    return QRV1.CancelSessionResponse()
  }

  /// Cancelling what is over changes nothing and is no error: the caller wanted it to be over.
  func cancel(_ found: QRSession, address: String = "") async throws(RPCError) {
    let (outcome, session) = try await decide(on: found) { session, now in session.cancel(at: now) }
    guard outcome == .cancelled else { return }
    ended(session)
    record(.cancelled, session, address: address)
  }

  /// The session's code is on no screen any more, before its time.
  func ended(_ session: QRSession) {
    admission.ended(session, at: clock.now())
  }
}
