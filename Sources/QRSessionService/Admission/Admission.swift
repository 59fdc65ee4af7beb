import Callers
import GRPC
import LatchkeyModel
import ServiceRuntime
import Storage

/// The rate limits of the QR service (S13, S15, R26). Counted by source, an IPv4 address or IPv6 /64, and by account.
struct Admission: Sendable {
  private let issues: RateLimiter<String>?
  private let outstanding: RateLimiter<String>?
  private let decisions: RateLimiter<SubjectID>?
  private let scans: RateLimiter<SubjectID>?
  private let wrongCodes: RateLimiter<SubjectID>
  private let userCodeTries: RateLimiter<SubjectID>
  private let typedCodes: TypedCodes
  /// In the place of these two where there are several instances.
  private let shared: SharedTypedCodes?
  private let unknownCodes: RateLimiter<String>
  private let exempt: [NetworkRange]

  init(_ settings: QRSettings, guesses: (any GuessCounts)? = nil, among instances: InstanceCount = .one) {
    issues = settings.issueRate.map { RateLimiter($0, among: instances) }
    // Earned back over the life of a code, and at once when a code ends before its time.
    outstanding = settings.outstandingCodes.map { RateLimiter(Rate($0, per: settings.lifetime), among: instances) }
    decisions = settings.decisionRate.map { RateLimiter($0, among: instances) }
    scans = settings.scanRate.map { RateLimiter($0, among: instances) }
    wrongCodes = RateLimiter(settings.wrongCodeRate, among: instances)
    userCodeTries = RateLimiter(settings.userCodeTries)
    typedCodes = TypedCodes(lifetime: settings.lifetime)
    shared = guesses.map { SharedTypedCodes(counts: $0, tries: settings.userCodeTries, lifetime: settings.lifetime) }
    unknownCodes = RateLimiter(settings.unknownCodeRate, among: instances)
    exempt = settings.exempt
  }

  /// Whether a source has none of the limits on codes that are asked for or looked up.
  private func isExempt(_ address: String) -> Bool {
    guard !exempt.isEmpty, let address = NetworkAddress(address) else { return false }
    return exempt.contains { $0.contains(address) }
  }

  /// One key for all that comes without an address, as in-process calls do.
  private static func source(_ peer: Peer) -> String { source(peer.address) }

  private static func source(_ address: String) -> String {
    switch NetworkAddress(address)?.source {
    case .v4(let address)?: "4:\(address)"
    case .v6(let high, _)?: "6:\(high)"
    case nil: ""
    }
  }

  func issue(from peer: Peer, at now: Timestamp) throws(RPCError) {
    guard !isExempt(peer.address) else { return }
    if let wait = issues?.spend(Self.source(peer), at: now) {
      throw .rateLimited("codes asked for", retryAfter: wait)
    }
    if let wait = outstanding?.spend(Self.source(peer), at: now) {
      throw .rateLimited("codes on screens", retryAfter: wait)
    }
  }

  /// A code of this source is on no screen any more.
  func ended(_ session: QRSession, at now: Timestamp) {
    guard !isExempt(session.request.initiator.address) else { return }
    outstanding?.refund(Self.source(session.request.initiator.address), at: now)
  }

  func decide(by subject: SubjectID, at now: Timestamp) throws(RPCError) {
    if let wait = decisions?.spend(subject, at: now) { throw .rateLimited("decisions", retryAfter: wait) }
  }

  func decisionWasRight(by subject: SubjectID, at now: Timestamp) {
    decisions?.refund(subject, at: now)
  }

  /// A code that an account is about to have looked at.
  struct Try: Sendable {
    let subject: SubjectID
    let source: String
    /// Nil for a code that was scanned.
    let typed: TypedCodes.Terms?
  }

  /// Takes one of the account's tries before the code is looked at: parallel guesses count like any others, and a
  /// refusal tells nothing about the code. A refused call takes none.
  func scan(by subject: SubjectID, from peer: Peer, isTyped: Bool, at now: Timestamp) async throws(RPCError) -> Try {
    if let wait = scans?.spend(subject, at: now) { throw .rateLimited("codes scanned", retryAfter: wait) }
    if let wait = wrongCodes.spend(subject, at: now) { throw .rateLimited("wrong codes", retryAfter: wait) }
    let source = Self.source(peer)
    guard isTyped else { return Try(subject: subject, source: source, typed: nil) }
    if let shared {
      do throws(RPCError) {
        let terms = try await shared.spend(by: subject, source, at: now)
        return Try(subject: subject, source: source, typed: terms)
      } catch {
        wrongCodes.refund(subject, at: now)
        throw error
      }
    }
    if let wait = userCodeTries.spend(subject, at: now) {
      wrongCodes.refund(subject, at: now)
      throw .rateLimited("codes typed", retryAfter: wait)
    }
    do throws(RPCError) {
      return Try(subject: subject, source: source, typed: try typedCodes.spend(source, at: now))
    } catch {
      wrongCodes.refund(subject, at: now)
      userCodeTries.refund(subject, at: now)
      throw error
    }
  }

  /// The code was one that the account may confirm, or nobody looked at it (S26): the try does not count.
  func wasNotWrong(_ attempt: Try, at now: Timestamp) async {
    wrongCodes.refund(attempt.subject, at: now)
    guard let terms = attempt.typed else { return }
    if let shared { return await shared.refund(terms, by: attempt.subject, attempt.source, at: now) }
    userCodeTries.refund(attempt.subject, at: now)
    typedCodes.refund(terms, attempt.source, at: now)
  }

  /// Whether storage may be asked about a code that memory does not know, for this source.
  func mayLookUpUnknown(from peer: Peer, at now: Timestamp) -> Bool {
    isExempt(peer.address) || unknownCodes.spend(Self.source(peer), at: now) == nil
  }
}
