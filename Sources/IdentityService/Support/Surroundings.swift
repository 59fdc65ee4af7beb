import Domain
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// What every room takes from outside: the time, randomness, the log, and the one place where a failure of storage
/// becomes what a client may know.
package struct Surroundings: Sendable {
  package let clock: any WallClock
  package let random: RandomSource
  package let logger: Logger
  private let failures: StorageFailureLog

  package init(clock: any WallClock, random: RandomSource, logger: Logger) {
    self.clock = clock
    self.random = random
    self.logger = logger
    failures = StorageFailureLog(logger)
  }

  /// Runs a store's operation, and turns what went wrong into what the client may know; the cause is logged here.
  func stored<Value: Sendable>(
    _ operation: () async throws(StorageError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(StorageError) {
      return try await operation()
    } catch {
      failures.note(error, at: clock.now())
      throw RPCError(storage: error)
    }
  }
}

/// A room whose calls are commands of the domain.
protocol Deciding: Surrounded {
  var domain: IdentityDomain { get }
}

extension Deciding {
  /// Runs a command, and turns what went wrong with the store into what the client may know.
  func perform<Command: IdentityCommand>(_ command: Command) async throws(RPCError) -> Command.Outcome {
    try await stored { () throws(StorageError) in try await domain.perform(command) }
  }

  /// Looks something up, likewise.
  func look<Query: IdentityOperation>(_ query: Query) async throws(RPCError) -> Query.Outcome {
    try await stored { () throws(StorageError) in try await domain.look(query) }
  }
}

/// A part of the service that works in these surroundings.
protocol Surrounded: Sendable {
  var surroundings: Surroundings { get }
}

extension Surrounded {
  var clock: any WallClock { surroundings.clock }
  var random: RandomSource { surroundings.random }
  /// Whose subjects these are, and of which everything is that is made here.
  var cell: Cell { random.cell }
  var logger: Logger { surroundings.logger }

  func stored<Value: Sendable>(
    _ operation: () async throws(StorageError) -> Value
  ) async throws(RPCError) -> Value {
    try await surroundings.stored(operation)
  }
}
