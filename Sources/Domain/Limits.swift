/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// A try that was counted later than this from now was counted by a clock that was set back since: instances that serve
  /// differ by a second or two.
  static let attemptAhead: Duration = .seconds(60)

  /// For how much time without a wrong try on a known device or network one of them is forgotten: nine a day, where 24 may be
  /// made a day by whoever goes on for long.
  static let tryInMind: Duration = .seconds(9600)

  /// Records of a guest that one transaction merges. Each costs some 30 µs: a chunk holds the writer for about 15 ms,
  /// a fifth of what a caller notices.
  static let applyRecords = 500

  /// Bytes of values in such a chunk, so that large records make it short rather than long.
  static let applyBytes = 4 << 20

  /// Layers of merges that one transaction of taking back looks at: an account whose records many guests share takes
  /// more steps, not longer ones.
  static let undoLayers = 2000

  /// Records whose layers are asked for at once. An engine looks in each merge of the account for each of them: some
  /// hundred thousand times, part of a second, when somebody has merged thousands of guests.
  static let undoNames = 64

  /// Records that one reading of VERIFY looks at: some tens of milliseconds of a reading thread.
  static let verifyRecords = 10_000

  /// Records that one transaction deletes: cheaper than merging, for the same reason.
  static let purgeRecords = 1000

  /// What is kept of one account's merges so that they can be taken back. A single merge keeps at most what the account
  /// and the guest may store, 272 MiB unless configured otherwise, so the last one can always be taken back: this is room
  /// for it and as much before it, and a person whose guests hold some MiB takes back hundreds. Whoever merges on purpose
  /// to fill the disk fills this much for each account, and not a disk within the week that it is kept.
  static let undoBytes = 512 << 20

  /// Guests' records that wait for one account's owner, and the bytes of their values, beyond which the account takes no
  /// more guests until some are decided: more than a person decides one by one, and a look at them takes some milliseconds.
  /// One guest may bring as much again as it may store, before it is looked at again.
  static let setAsideRecords = 10_000
  static let setAsideBytes = 64 << 20

  /// How long an expired plan is kept, so that starting it says that it is stale and not that it never was.
  static let expiredPlanKept: Duration = .seconds(24 * 3600)

  /// Expired plans that are deleted whenever one is saved: more than one, so that they become fewer.
  static let expiredPlans = 16
}
