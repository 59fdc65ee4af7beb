internal import Glibc

/// What tells one content of a file from the next without reading it.
struct FileStamp: Equatable {
  private let device: UInt64
  private let inode: UInt64
  private let size: Int64
  private let seconds: Int64
  private let nanoseconds: Int64

  /// Nil when there is no such file. A link counts as what it leads to.
  init?(_ path: String) {
    var information = stat()
    // The path is copied for the call, which fills in the structure.
    guard unsafe stat(path, &information) == 0 else { return nil }
    device = UInt64(information.st_dev)
    inode = UInt64(information.st_ino)
    size = Int64(information.st_size)
    seconds = Int64(information.st_mtim.tv_sec)
    nanoseconds = Int64(information.st_mtim.tv_nsec)
  }
}
