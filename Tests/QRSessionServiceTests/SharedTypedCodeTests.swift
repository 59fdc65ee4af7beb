import GRPC
import LatchkeyModel
import ServiceRuntime
import StoragePostgreSQL
import TestSupport
import Testing

@testable import QRSessionService

@Suite("C8: guesses at typed codes count over all instances")
struct SharedTypedCodeTests {
  private let now = Timestamp(secondsSinceEpoch: 1_800_000_000)

  /// Two instances over one database.
  private func instances() async throws -> (codes: [SharedTypedCodes], databases: [PostgreSQLDatabase]) {
    let url = try PostgreSQLURL(try PostgreSQLServer.shared().database())
    var databases: [PostgreSQLDatabase] = []
    for _ in 0..<2 {
      databases.append(try await PostgreSQLDatabase.open(url: url, schema: .qr, connections: 4, isPatient: true))
    }
    let codes = databases.map { database in
      SharedTypedCodes(
        counts: PostgreSQLGuessCounts(database: database), tries: Rate(5, per: .seconds(600)), lifetime: .seconds(120))
    }
    return (codes, databases)
  }

  private func subject(_ number: Int) -> SubjectID {
    SubjectID(from: RandomSource { [UInt8](repeating: UInt8(number), count: $0) })
  }

  /// What forty are told who type at once, half of them at each instance; nil for who has to wait.
  private func forty(
    _ codes: [SharedTypedCodes], at time: Timestamp, _ who: @escaping @Sendable (Int) -> (SubjectID, String)
  ) async throws -> [TypedCodes.Terms] {
    try await withThrowingTaskGroup(of: TypedCodes.Terms?.self) { group in
      for number in 0..<40 {
        group.addTask {
          let (subject, source) = who(number)
          do throws(RPCError) {
            return try await codes[number % 2].spend(by: subject, source, at: time)
          } catch {
            guard error.code == .resourceExhausted else { throw error }
            return nil
          }
        }
      }
      return try await group.reduce(into: []) { if let terms = $1 { $0.append(terms) } }
    }
  }

  @Test("Of forty who guess at once as many are let through as at one instance: of an account, a network, and of all")
  func together() async throws {
    let (codes, databases) = try await instances()
    let strangers = try await forty(codes, at: now) { number in (subject(number), "4:\(number)") }
    #expect(strangers.count == 40 && strangers.count { !$0.takesDigits } == Limits.unaidedTypedCodes)
    #expect(strangers.allSatisfy { !$0.takesOwnNetwork })
    #expect(try await forty(codes, at: now) { number in (subject(100), "4:10.\(number)") }.count == 5)
    let behindOne = try await forty(codes, at: now) { number in (subject(100 + number), "4:one") }
    #expect(behindOne.count == Limits.typedCodesPerSource)
    // Those who had to wait took nothing: the rest of what there is for all.
    var left = Limits.typedCodes + Limits.unaidedTypedCodes - 40 - 5 - Limits.typedCodesPerSource
    for network in 0..<3 {
      let terms = try await forty(codes, at: now) { number in (subject(150 + number), "4:\(network).\(number)") }
      #expect(terms.count { !$0.takesOwnNetwork } == min(40, left))
      left = max(0, left - 40)
    }
    // It is earned back in time.
    let later = try await forty(codes, at: now + .seconds(600)) { number in (subject(number), "4:\(number)") }
    #expect(later.count == 40 && later.count { !$0.takesDigits } == Limits.unaidedTypedCodes)
    for database in databases { await database.close() }
  }

  @Test("A right code gives its try back, at whichever instance; who has to wait is told for how long")
  func refunds() async throws {
    let (codes, databases) = try await instances()
    for number in 0..<30 {
      let terms = try await codes[number % 2].spend(by: subject(1), "4:a", at: now)
      #expect(terms == TypedCodes.Terms(takesDigits: false, takesOwnNetwork: false))
      await codes[(number + 1) % 2].refund(terms, by: subject(1), "4:a", at: now)
    }
    for number in 0..<5 { _ = try await codes[number % 2].spend(by: subject(1), "4:a", at: now) }
    for one in codes {
      let error = await #expect(throws: RPCError.self) { try await one.spend(by: subject(1), "4:a", at: now) }
      #expect(error?.details.retryAfter == .seconds(120))
    }
    // A clock that was set back does not keep anybody waiting for longer than a window.
    let back = await #expect(throws: RPCError.self) {
      try await codes[0].spend(by: subject(1), "4:a", at: now - .seconds(86_400))
    }
    #expect(back?.details.retryAfter == .seconds(120))
    for database in databases { await database.close() }
    let gone = await #expect(throws: RPCError.self) { try await codes[0].spend(by: subject(2), "4:b", at: now) }
    #expect(gone?.code == .unavailable)
  }
}
