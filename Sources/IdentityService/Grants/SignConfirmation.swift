import Cryptography
import Domain
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GrantHandlers {
  /// States that a person confirmed an action. Believes nobody: the confirming device's signature is verified here too,
  /// over what is stated, and by the key that the session began with.
  package func signConfirmation(
    _ request: IdentityV1.SignConfirmationRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SignConfirmationResponse {
    let subject = try RequestFields.subjectID(request.sub, "sub", in: cell)
    let session = try RequestFields.sessionID(request.confirmedBySid, "confirmed_by_sid", in: cell)
    let qrSession = try RequestFields.foreignID(request.qrSessionID, "qr_session_id")
    let client = try RequestFields.clientID(request.clientID)
    let key = try RequestFields.publicKey(request.deviceKey, "device_key")
    guard let confirmedAt = request.confirmedAt?.millisecondsSinceEpoch else {
      throw .invalid("confirmed_at", "is missing or no time")
    }
    let action = try action(request)
    guard let ticket = Base64URL.decode(request.ticketDigest).flatMap({ Digest256($0) }) else {
      throw .invalid("ticket_digest", "is a SHA-256 in base64url")
    }
    let digest = SHA256Hash.hash(action.message(client: client))
    guard Base64URL.encode(digest) == request.actionDigest else {
      throw .invalid("action_digest", "is not that of the action")
    }
    let signed = QRConfirmProof.message(ticket: ticket, action: Digest256(digest))
    guard key.verify(signature: request.signature, message: signed) else {
      throw .invalid("signature", "is not the device key's over the ticket and the action")
    }
    switch try await look(FindConfirmer(session, of: subject, for: qrSession, at: clock.now())) {
    case .live(let session):
      guard session.device.keyThumbprint == key.thumbprint else {
        throw .invalid("device_key", "is not the key of the session's device")
      }
    case .gone: throw .confirmerGone
    case .revoked: throw .qrRevoked
    }
    let claims: JSONValue = [
      "iss": .string(tokens.issuer),
      "aud": .string(client.description),
      "sub": .string(subject.description),
      "sid": .string(session.description),
      "iat": .integer(confirmedAt / 1000),
      "jti": .string(qrSession),
      "action": Self.described(action),
      "action_digest": .string(request.actionDigest),
      "proof": [
        "jwk": [
          "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(key.x)), "y": .string(Base64URL.encode(key.y)),
        ],
        "ticket_digest": .string(request.ticketDigest),
        "signature": .string(Base64URL.encode(request.signature)),
      ],
    ]
    do throws(SigningKeyError) {
      return IdentityV1.SignConfirmationResponse(jws: try tokens.keys.sign(claims, type: Self.confirmationType))
    } catch {
      throw RPCError(signing: error, "the confirmation")
    }
  }

  /// The value of `typ`: no verifier of access tokens takes it for one (R8).
  static let confirmationType = "latchkey-confirmation+jwt"

  private static func described(_ action: QRAction) -> JSONValue {
    var members: [JSONValue.Member] = [.init("text", .string(action.text.description))]
    if let amount = action.amount {
      members += [.init("amount", .string(amount.decimal)), .init("currency", .string(amount.currency))]
    }
    if !action.reference.isEmpty { members.append(.init("reference", .string(action.reference))) }
    return .object(members)
  }

  private func action(_ request: IdentityV1.SignConfirmationRequest) throws(RPCError) -> QRAction {
    var amount: QRAmount?
    if !request.amount.isEmpty || !request.currency.isEmpty {
      guard let money = QRAmount(decimal: request.amount, currency: request.currency) else {
        throw .invalid("amount", "is no amount with a currency")
      }
      amount = money
    }
    guard let action = QRAction(text: request.actionText, amount: amount, reference: request.reference) else {
      throw .invalid("action_text", "or reference is out of its bounds")
    }
    return action
  }
}
