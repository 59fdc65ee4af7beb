import Callers
import Cryptography
import GRPC
import LatchkeyModel
import ServiceRuntime

/// What a call costs that begins something, such as a registration: nothing at first; work, growing with the excess, for
/// a network that makes many (G23). Nobody is turned away for the address alone.
package struct CallAdmission: Sendable {
  private let calls: NetworkTally
  private let name: String
  private let challenges: ChallengeBook

  /// - Parameter name: what the work is for, so that none done for one thing counts for another.
  package init(
    _ name: String, perHour count: Int, exempt: [NetworkRange] = [], among instances: InstanceCount = .one,
    challenges: ChallengeBook
  ) {
    self.name = name
    self.challenges = challenges
    calls = NetworkTally(count, per: .seconds(3600), exempt: exempt, among: instances)
  }

  /// The work that a caller says it did.
  struct Work: Sendable {
    let challenge: String
    let solution: [UInt8]

    init(challenge: String, solution: [UInt8]) throws(RPCError) {
      guard solution.count <= Limits.powSolutionBytes else {
        throw .invalid("pow_solution", "must be at most \(Limits.powSolutionBytes) bytes")
      }
      self.challenge = challenge
      self.solution = solution
    }
  }

  /// Errors: `CHALLENGE_REQUIRED`, with the challenge in its metadata.
  ///
  /// - Parameter subject: what the call is about. Work is worth something for this alone, so that presented again it
  ///   gains nothing.
  func admit(
    _ work: Work,
    about subject: [UInt8],
    client: ClientID,
    from peer: Peer,
    at now: Timestamp
  ) throws(RPCError) {
    let purpose = "\(name) \(Base64URL.encode(SHA256Hash.hash(subject)))"
    if !work.challenge.isEmpty,
      let challenge = challenges.recognise(work.challenge, client: client, keyThumbprint: purpose, at: now),
      challenge.workBits > 0, ProofOfWork.holds(work.solution, for: challenge)
    {
      return
    }
    let excess = calls.excess(from: peer, at: now)
    guard excess > 0 else { return }
    let challenge = challenges.make(
      client: client,
      keyThumbprint: purpose,
      workBits: ProofOfWork.bits(forExcess: excess),
      at: now
    )
    var error = RPCError.workRequired(bits: challenge.workBits)
    error.details.info.append(RPCError.KeyValue("challenge", challenge.text))
    throw error
  }
}
