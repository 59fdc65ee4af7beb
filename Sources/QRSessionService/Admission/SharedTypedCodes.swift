import GRPC
import LatchkeyModel
import ServiceRuntime
import Storage

/// What ``TypedCodes`` counts, counted over all instances: guesses are no more of them because there are several to ask.
struct SharedTypedCodes: Sendable {
  let counts: any GuessCounts
  /// What one account may type.
  let tries: Rate
  /// Of a code.
  let lifetime: Duration

  private enum Count {
    case account(SubjectID)
    case source(String)
    case unaided
    case all

    var name: String {
      switch self {
      case .account(let subject): "account \(subject)"
      case .source(let source): "source \(source)"
      case .unaided: "unaided"
      case .all: "all"
      }
    }
  }

  private func rate(_ count: Count) -> Rate {
    switch count {
    case .account: tries
    case .source: Rate(Limits.typedCodesPerSource, per: lifetime)
    case .unaided: Rate(Limits.unaidedTypedCodes, per: lifetime * Limits.unaidedLives)
    case .all: Rate(Limits.typedCodes, per: lifetime)
    }
  }

  /// Takes a try before the code is looked at, so that guesses at the same time count like any others.
  func spend(
    by subject: SubjectID, _ source: String, at now: Timestamp
  ) async throws(RPCError) -> TypedCodes.Terms {
    if let wait = try await spend(.account(subject), at: now) {
      throw .rateLimited("codes typed", retryAfter: wait)
    }
    if let wait = try await spend(.source(source), at: now) {
      await refund(.account(subject), at: now)
      throw .rateLimited("wrong codes typed on this network", retryAfter: wait)
    }
    if try await spend(.unaided, at: now) == nil {
      return TypedCodes.Terms(takesDigits: false, takesOwnNetwork: false)
    }
    return TypedCodes.Terms(takesDigits: true, takesOwnNetwork: try await spend(.all, at: now) != nil)
  }

  /// The code was right, or was not looked at.
  func refund(_ terms: TypedCodes.Terms, by subject: SubjectID, _ source: String, at now: Timestamp) async {
    await refund(.account(subject), at: now)
    await refund(.source(source), at: now)
    guard terms.takesDigits else { return await refund(.unaided, at: now) }
    if !terms.takesOwnNetwork { await refund(.all, at: now) }
  }

  private func spend(_ count: Count, at now: Timestamp) async throws(RPCError) -> Duration? {
    let rate = rate(count)
    do throws(StorageError) {
      return try await counts.spend(count.name, of: rate.count, per: rate.window, at: now)
    } catch {
      throw RPCError(storage: error)
    }
  }

  /// A try that cannot be given back is earned back.
  private func refund(_ count: Count, at now: Timestamp) async {
    let rate = rate(count)
    try? await counts.refund(count.name, of: rate.count, per: rate.window, at: now)
  }
}
