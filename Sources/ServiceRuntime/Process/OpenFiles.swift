internal import Glibc
internal import TransportServer

/// The open files that this process may have: each connection is one.
enum OpenFiles {
  /// Raises the limit as far as this process may, and answers it.
  static func raiseLimit() -> Int {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    // getrlimit fills the struct and setrlimit reads it; both keep nothing.
    guard unsafe getrlimit(resource, &limit) == 0 else { return .max }
    if limit.rlim_cur < limit.rlim_max {
      var raised = limit
      raised.rlim_cur = limit.rlim_max
      if unsafe setrlimit(resource, &raised) == 0 { limit = raised }
    }
    return Int(clamping: limit.rlim_cur)
  }

  /// How many connections there may be, what is wanted as far as the files go, and how many more may wait to be set up.
  ///
  /// - Parameter loops: event loops, of each kind.
  static func connections(wanted: Int, limit: Int, loops: Int = 0) -> (open: Int, arriving: Int) {
    let arriving = min(ServerBudget.Bounds().arrivals, limit / Limits.partOfFilesArriving)
    let reserved = min(Limits.reservedFiles + loops * Limits.filesOfLoop, limit / 4 * 3)
    return (max(1, min(wanted, limit - reserved - arriving)), arriving)
  }

  /// Has the kernel make its table of this process's files large enough for so many, before anybody waits for it. The
  /// table grows by doubling, and a process with threads stands still for some milliseconds each time.
  static func makeRoom(for count: Int) {
    // The path is read before the call returns.
    let file = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return }
    // The last place takes what is before it into the table. Without it the table grows when it has to.
    let last = fcntl(file, F_DUPFD_CLOEXEC, CInt(clamping: count - 1))
    if last >= 0 { close(last) }
    close(file)
  }
}
