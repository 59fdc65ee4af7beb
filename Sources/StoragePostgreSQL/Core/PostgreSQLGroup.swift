import Storage

/// Operations that waited at the same time and are done together: changes in one transaction, lookups in one go.
///
/// The changes run side by side, those about the same rows one after the other, and are answered when all are committed. There
/// is no savepoint between them. When one fails, all are undone and each is done by itself: so a change may fail only before
/// anything of a group is committed, and what it decided without failing stands. A lone change is done so as well: it
/// does not keep others waiting while it waits for a lock.
struct PostgreSQLGroup {
  /// What became of them.
  enum End {
    /// All were answered.
    case done
    /// These were not, for there was no time: they may be in the next group.
    case left([any QueuedOperation])
    /// Nothing of them was done, because one of them failed or waits for what others hold.
    case undone
    /// Nothing of them was done, because the connection was lost before.
    case untouched
    /// These kept their results, which hold if the commit was made. The others wait for the next group.
    case unknown(UnknownCommits.Entry, left: [any QueuedOperation])
  }

  let kind: OperationKind
  /// At least one; taken on by `begin`.
  let members: [any QueuedOperation]
  /// After which no more of them are taken on.
  let duration: Duration

  func run(on connection: PostgreSQLConnection) async -> End {
    switch kind {
    case .change: commit(on: connection)
    case .lookup where members.count > 1: await lookUp(on: connection)
    case .lookup, .alone:
      switch await members[0].run(on: connection) {
      case .answered: .done
      case .untouched: .untouched
      case .unknown(let mark, let error):
        .unknown(
          UnknownCommits.Entry(
            mark: mark, operations: members, isRunAgain: !connection.isGivenUp, failure: error), left: [])
      }
    }
  }

  private func commit(on connection: PostgreSQLConnection) -> End {
    connection.begin(isReading: false, isGroup: true)
    let rounds = PostgreSQLRounds.run(members, on: connection, until: .now + duration)
    do throws(StorageError) {
      if let failure = rounds.failure { throw failure }
      try connection.commit()
    } catch {
      return end(after: error, on: connection, rounds.begun, left: rounds.left)
    }
    for member in rounds.begun { member.finish(nil) }
    return .left(rounds.left)
  }

  private func lookUp(on connection: PostgreSQLConnection) async -> End {
    do throws(StorageError) {
      connection.startOver()
      for member in members { try await member.join(connection) }
      try connection.settle()
    } catch {
      return end(after: error, on: connection, members, left: [])
    }
    for member in members { member.finish(nil) }
    return .done
  }

  /// - Parameter begun: of which something may have been asked.
  private func end(
    after error: StorageError, on connection: PostgreSQLConnection, _ begun: [any QueuedOperation],
    left: [any QueuedOperation]
  ) -> End {
    let wasLost = connection.isBroken
    connection.rollBack()
    if error.fault != .outcomeUnknown {
      if connection.isUntouched { return .untouched }
      // What others had asked is no matter of theirs that one failed, nor that the connection was lost over undoing it.
      guard wasLost else { return .undone }
    } else if let mark = connection.unknown {
      let entry = UnknownCommits.Entry(
        mark: mark, operations: begun, isRunAgain: !connection.isGivenUp, failure: error)
      return .unknown(entry, left: left)
    }
    for member in begun { member.finish(error) }
    return .left(left)
  }
}
