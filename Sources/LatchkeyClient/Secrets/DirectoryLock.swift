import Cryptography
import Glibc

/// Held by one at a time, of this process and all others, until it is released or its process ends (flock(2)).
struct DirectoryLock: ~Copyable {
  private let file: Int32

  /// Waits for whoever holds it. Errors: ``SecretFileError``, also when that takes too long.
  init(_ path: String) throws(SecretFileError) {
    // The path lives as a NUL-terminated copy for the length of the call.
    file = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard file >= 0 else { throw .system(operation: "open", path: path, code: errno) }
    let end = ContinuousClock.now + Limits.lockPatience
    // A descriptor of its own for each: threads of one process exclude each other as well.
    while flock(file, LOCK_EX | LOCK_NB) != 0 {
      let code = errno
      guard code == EWOULDBLOCK || code == EINTR, ContinuousClock.now < end else {
        throw .system(operation: "lock", path: path, code: code)
      }
      usleep(Limits.lockPause)
    }
  }

  consuming func release() {}

  deinit {
    close(file)
  }
}
