import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GrantHandlers {
  /// Signs a new device in for a person who confirmed its code. A session of its own, with at most the scope of a
  /// screen unless more was asked for and confirmed.
  package func issueForQr(
    _ request: IdentityV1.IssueForQrRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IssueForQrResponse {
    let scope = try RequestFields.scope(request.scope)
    let key = try request.deviceKey.map { (jwk) throws(RPCError) in try RequestFields.publicKey(jwk, "device_key") }
    let label = try RequestFields.displayText(request.deviceLabel, "device_label")
    let platform = try RequestFields.displayText(request.platform, "platform")
    let now = clock.now()
    let kind: IssueForQr.Kind
    switch request.kind {
    case .unspecified, .signIn:
      kind = .signIn
    case .bindDevice:
      kind = .bind(try device(key, label, platform), NoticeID(from: random))
    case .transfer:
      kind = .transfer(try device(key, label, platform))
    default:
      throw .invalid("kind", "must be SIGN_IN, BIND_DEVICE or TRANSFER")
    }
    let isTransfer = request.kind == .transfer
    let grant = IssueForQr(
      qrSession: try RequestFields.foreignID(request.qrSessionID, "qr_session_id"),
      subject: try RequestFields.subjectID(request.sub, "sub", in: cell),
      confirmedBy: try RequestFields.sessionID(request.confirmedBySid, "confirmed_by_sid", in: cell),
      provenAt: try Self.provenAt(request),
      draft: SessionDraft(
        client: try RequestFields.clientID(request.clientID),
        method: isTransfer ? .transfer : .qr,
        label: label,
        platform: platform,
        scope: !scope.isEmpty ? scope : isTransfer ? nil : .screen,
        boundKeyThumbprint: key?.thumbprint,
        lifetimes: tokens.lifetimes,
        at: now,
        random: random
      ),
      kind: kind,
      turn: request.turn == 0 ? nil : request.turn
    )
    let issuing = try tokens.issuing()
    switch try await perform(grant) {
    case .issued(let session, let profile):
      if case .bind = kind { notices.hurry() }
      return IdentityV1.IssueForQrResponse(
        tokens: try issuing.tokens(of: session, at: now),
        subject: CommonV1.Subject(session),
        profile: CommonV1.Profile(profile),
        storageNamespace: session.subject.storageNamespace
      )
    case .noAccount: throw .loginRequired
    case .confirmerGone: throw .confirmerGone
    case .revoked: throw .qrRevoked
    case .merging: throw .migrationRunning
    case .keyTaken: throw .identityInUse
    case .tooManyUnlocks: throw .tooManyIdentities
    case .overtaken: throw .qrTurnOver
    }
  }

  /// Nothing that anybody proved, where nobody says when.
  private static func provenAt(
    _ request: IdentityV1.IssueForQrRequest
  ) throws(RPCError) -> LatchkeyModel.Timestamp {
    guard let time = request.confirmerAuthTime else { return Timestamp(millisecondsSinceEpoch: 0) }
    guard let milliseconds = time.millisecondsSinceEpoch else { throw .invalid("confirmer_auth_time", "is no time") }
    return Timestamp(millisecondsSinceEpoch: milliseconds)
  }

  private func device(
    _ key: P256PublicKey?, _ label: DisplayText?, _ platform: DisplayText?
  ) throws(RPCError) -> DeviceRegistration {
    // Nothing but its key is known of it: that is its name.
    guard let key, let id = DeviceID(key.thumbprint) else { throw .invalid("device_key", "is what the grant is for") }
    return DeviceRegistration(
      keyThumbprint: key.thumbprint, publicKeyX: key.x, publicKeyY: key.y, deviceID: id, label: label,
      platform: platform)
  }
}
