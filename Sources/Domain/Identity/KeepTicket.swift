import LatchkeyModel
import Storage

/// A guest who meets an existing account gets a ticket by which the guest's device may choose later; what the ticket
/// stands for is spent. An earlier one of the same session is void.
package struct KeepTicket: IdentityCommand {
  package static let name = "keep a link ticket"

  package var ticket: LinkTicket
  /// Why the caller may have the account's session; a code in it is spent.
  package var proof: SignIn.Proof
  /// What the credential answered; it is used up.
  package var challenge: UsedChallenge?
  package var now: Timestamp

  package init(_ ticket: LinkTicket, for proof: SignIn.Proof, challenge: UsedChallenge?, at now: Timestamp) {
    self.ticket = ticket
    self.proof = proof
    self.challenge = challenge
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case kept
    /// The code was spent, or its identifier leads elsewhere, since it was looked up.
    case credentialChanged
    /// The challenge was answered before.
    case challengeUsed
    case guestGone
    /// Somebody who runs the service keeps the account out.
    case disabled
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    guard try await LiveGuest.find(ticket.guestSession, at: now, in: rows) != nil else { return .guestGone }
    // Every refusal comes before the first change: an outcome is committed, whatever it says.
    guard case .found(let presented) = try await PresentedProof.find(proof, guest: nil, at: now, in: rows) else {
      return .credentialChanged
    }
    if let challenge, try await rows.challenges.isUsed(challenge) { return .challengeUsed }
    if presented.owner?.isDisabled == true { return .disabled }
    if case .code(_, _, let code) = proof, try await !rows.codes.spend(code, at: now) { return .credentialChanged }
    if let challenge { _ = try await rows.challenges.insert(challenge) }
    var ticket = ticket
    if let source = presented.source { ticket.authority = source }
    ticket.credential = presented.credential
    try await rows.tickets.put(ticket)
    return .kept
  }
}

/// A guest's ticket; nil when there is none, when it is not this guest session's, or when it has expired.
package struct FindTicket: IdentityOperation {
  package static let name = "find a link ticket"

  package var hash: [UInt8]
  package var guestSession: SessionID
  package var now: Timestamp

  package init(_ hash: [UInt8], of guestSession: SessionID, at now: Timestamp) {
    self.hash = hash
    self.guestSession = guestSession
    self.now = now
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> LinkTicket? {
    guard let ticket = try await rows.tickets.find(hash), ticket.holds(for: guestSession, at: now) else { return nil }
    return ticket
  }
}
