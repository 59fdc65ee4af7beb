internal import Cryptography
internal import Glibc

/// Gives memory that was freed back to the system once the load that needed it has fallen: the C library keeps most of it
/// for itself otherwise, for as long as the process lives.
struct FreedMemory {
  /// `malloc_trim`, of a C library that has it; <malloc.h> is not in Swift's module of it.
  private typealias Trim = @convention(c) (Int) -> CInt

  /// Looks again and again until cancelled.
  ///
  /// Giving back takes a millisecond for each few thousand pages, for which others wait who want memory from the same
  /// part of it: never while the load is what it was, unless it is little.
  func run() async {
    // The name is this function's in every C library that has it, with this type.
    let trim = unsafe dlsym(nil, "malloc_trim").map { unsafe unsafeBitCast($0, to: Trim.self) }
    var load = LoadWatch(Self.processorTime)
    while !Task.isCancelled {
      try? await Task.sleep(for: Limits.trimInterval)
      guard load.hasFallen(Self.processorTime), !Task.isCancelled else { continue }
      HashMemory.shared.giveBack()
      _ = trim?(0)
    }
  }

  private static var processorTime: Duration {
    var time = timespec()
    // Writes through the pointer before it returns.
    unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
}

/// Tells from the processor time that a process has used, looked at in equal steps, when there is less to do than there
/// was.
struct LoadWatch {
  private var last: Duration
  /// The most of a step since it was last said that the load has fallen.
  private var most = Duration.zero
  /// Steps in a row with less to do.
  private var lower = 0

  init(_ used: Duration) {
    last = used
  }

  /// True at the second step in a row that took less than half of what one took before, or little. By then connections
  /// have freed what they keep for a while. While that lasts, true again now and then, for what goes later.
  mutating func hasFallen(_ used: Duration) -> Bool {
    let step = used - last
    last = used
    guard step < max(most / 2, Limits.trimLoad) else {
      most = max(most, step)
      lower = 0
      return false
    }
    lower += 1
    guard lower % Limits.trimSteps == 2 else { return false }
    most = step
    return true
  }
}
