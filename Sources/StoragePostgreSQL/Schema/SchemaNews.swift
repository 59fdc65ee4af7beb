/// What becomes of a part's tables while they are brought forward.
package enum SchemaNews: Sendable, Equatable {
  /// A step begins, or is gone on with.
  case began(step: Int, name: String)
  /// A batch was done.
  case came(step: Int, place: String)
  case finished(step: Int, name: String)
  /// Somebody else is at it, or has a lock that a step wants; it is tried again. Whoever that is, as far as it can be seen.
  /// Said again when that changes.
  case waits(step: Int?, holders: [String])
}

/// How patiently tables are brought forward.
package struct SchemaPatience: Sendable {
  /// How long a step waits for a table's lock, in milliseconds: whoever comes after it waits behind it.
  package var lockMilliseconds = Limits.lockMilliseconds
  /// Before it is tried again, in milliseconds: what waited behind it goes on in between.
  package var pauseMilliseconds: ClosedRange<UInt32> = Limits.schemaPauseMilliseconds
  /// After which it is given up, while nothing moves on.
  package var standstill: Duration = Limits.schemaPatience
  /// How long an instance that was silent and did not say good-bye has to give a sign before something that it needs is
  /// taken away, in milliseconds: after a failover nobody was heard of for a while.
  package var signMilliseconds = Limits.memberSilenceMilliseconds

  package init() {}
}
