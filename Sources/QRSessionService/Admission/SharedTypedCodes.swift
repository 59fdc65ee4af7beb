import Callers
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

  /// Takes a try before the code is looked at, so that guesses at the same time count like any others. A try that is
  /// not taken as a whole is not taken.
  func spend(
    by subject: SubjectID, _ source: String, at now: Timestamp
  ) async throws(RPCError) -> TypedCodes.Terms {
    var spent: [Count] = []
    do throws(RPCError) {
      if let wait = try await spend(.account(subject), at: now) {
        throw RPCError.rateLimited("codes typed", retryAfter: wait)
      }
      spent.append(.account(subject))
      if let wait = try await spend(.source(source), at: now) {
        throw RPCError.rateLimited("wrong codes typed on this network", retryAfter: wait)
      }
      spent.append(.source(source))
      if try await spend(.unaided, at: now) == nil {
        return TypedCodes.Terms(takesDigits: false, takesOwnNetwork: false)
      }
      let isBeyondAll = try await spend(.all, at: now) != nil
      return TypedCodes.Terms(takesDigits: true, takesOwnNetwork: isBeyondAll)
    } catch {
      await refund(spent, at: now)
      throw error
    }
  }

  /// The code was right, or was not looked at.
  func refund(_ terms: TypedCodes.Terms, by subject: SubjectID, _ source: String, at now: Timestamp) async {
    var spent: [Count] = [.account(subject), .source(source)]
    if !terms.takesDigits {
      spent.append(.unaided)
    } else if !terms.takesOwnNetwork {
      spent.append(.all)
    }
    await refund(spent, at: now)
  }

  private func spend(_ count: Count, at now: Timestamp) async throws(RPCError) -> Duration? {
    let rate = rate(count)
    do throws(StorageError) {
      return try await counts.spend(count.name, of: rate.count, per: rate.window, at: now)
    } catch {
      throw RPCError(storage: error)
    }
  }

  /// In a task of its own: the call may have been cancelled, or be late, and too much may wait.
  private func refund(_ spent: [Count], at now: Timestamp) async {
    guard !spent.isEmpty else { return }
    await CallDeadline.outliving { () async throws(Never) in
      for count in spent { await refund(count, at: now) }
    }
  }

  /// A try that cannot be given back is earned back.
  private func refund(_ count: Count, at now: Timestamp) async {
    let rate = rate(count)
    try? await counts.refund(count.name, of: rate.count, per: rate.window, at: now)
  }
}
