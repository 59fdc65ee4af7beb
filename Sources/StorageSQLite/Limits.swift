/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Operations in one commit. An fdatasync costs about 170 µs, so with 128 its share is near 1 µs a caller;
  /// more would only make the first caller of a group wait longer.
  static let groupOperations = 128

  /// How long a group goes on taking operations that arrive while it runs. No group waits for one to arrive: a lone
  /// operation is committed at once. Two milliseconds are some ten fdatasyncs, so a steady stream of callers is
  /// grouped well and none of them notices.
  static let groupDuration: Duration = .milliseconds(2)

  /// Writes that may wait. At some 20,000 a second these are 0.2 s of work: beyond it a caller is better off being
  /// told to come back than being queued towards its deadline.
  static let waitingWrites = 4096

  /// Reads that may wait, by the same reckoning; reads are cheaper and go to several threads.
  static let waitingReads = 8192

  /// While what came first has waited for this long nothing more is queued: whoever waited longer had better hear it
  /// now and come back. Longer than a slow disk's commit, and short of what people notice twice.
  static let longestWait: Duration = .milliseconds(250)

  /// What waits while more is asked for than can be done, as time to do it: some commits, and little beside what the call
  /// takes anyway. Below that the writer would rest at times.
  static let shortWait: Duration = .milliseconds(30)

  /// How long there has been room when the overload is over: some bursts of clients that come back after a second.
  static let calm: Duration = .seconds(2)

  /// How often a failing disk is tried because somebody asks whether it can be written to again.
  static let writeTrial: Duration = .seconds(1)

  /// Reading threads. They overlap waiting for the disk; reads from the cache are limited by cores.
  static let readers = 2

  /// Prepared statements that a connection keeps. The statements are constants of the stores and far fewer;
  /// the bound only stops a mistake from growing without end.
  static let cachedStatements = 256

  /// How long to wait for another process (a backup, an operator's shell) to let go of the file.
  static let busyTimeout: Duration = .seconds(5)

  /// Memory for pages, in KiB, for each connection.
  static let pageCacheKiB = 16 * 1024

  /// Pages that the write-ahead log holds before they are folded into the file: 16 MiB. A page that changes often is
  /// folded once for all its changes, so four times SQLite's own number saves a third of the time of writing; more
  /// would make the pause for folding, and reading the log after a crash, longer than some tens of milliseconds.
  static let logPages = 4096

  /// The write-ahead log shrinks to this size after a checkpoint, in bytes: a burst must not keep the disk forever.
  static let logSizeBytes = 64 << 20

  /// Pages that are copied before somebody is told how far it is: 4 MiB, some milliseconds.
  static let copiedPages: Int32 = 1024
}
