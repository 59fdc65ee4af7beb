import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension TransferHandlers {
  /// Offers the caller, guest or account, to a device that presents the code.
  package func createTransfer(
    _ request: IdentityV1.CreateTransferRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CreateTransferResponse {
    let subject = try context.requireSubject()
    // The new device may do all that the account may, so one that may do less does not bring it in.
    guard subject.isGuest || subject.hasScope("account") else { throw .insufficientScope }
    let consent = try request.oldDevice.consent()
    let caller = try context.callerSession()
    let now = clock.now()
    let code = TransferCode(random: random)
    let reference = QRReference(from: random)
    let offer = TransferOffer(
      id: TransferID(from: random),
      codeHash: SHA256Hash.hash(code.bytes),
      referenceHash: SHA256Hash.hash(reference.bytes),
      consent: consent,
      address: context.peer.address,
      needsSameNetwork: request.sameNetwork,
      createdAt: now,
      expiry: now + Limits.transferLifetime
    )
    switch try await perform(CreateTransfer(offer, by: caller, provenAt: subject.authenticatedAt)) {
    case .offered: break
    case .merging: throw .migrationRunning
    case .unconfirmed: throw .sessionUnconfirmed
    // Whoever stepped up has a newer one, or gets it by refreshing.
    case .tokenOutdated: throw .tokenExpired
    case .callerEnded: throw .sessionRevoked
    }
    return IdentityV1.CreateTransferResponse(
      code: code.text,
      qrPayload: TransferPayload(issuer: tokens.issuer, reference: reference).text,
      expiresIn: Limits.transferLifetime.components.seconds,
      transferID: offer.id.description
    )
  }
}
