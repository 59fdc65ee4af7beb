import Glibc
import Storage

/// Makes the file before SQLite does, so that nobody else can read it for even a moment.
enum DatabaseFile {
  static func create(_ path: String) throws(StorageError) {
    // The path lives through the call. O_EXCL: an existing file is left alone; closing a second descriptor of it would
    // drop the locks of a connection in this process.
    let file = unsafe Glibc.open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0o600)
    if file < 0 {
      let code = errno
      if code == EEXIST { return }
      // `strerror` answers a text that holds until the thread's next call of it; it is copied at once.
      let reason = unsafe String(cString: strerror(code))
      throw StorageError(.unavailable, operation: "create \(path)", detail: reason)
    }
    Glibc.close(file)
    // The name is in the directory, which is durable on its own.
    let slash = path.lastIndex(of: "/")
    let directory = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let folder = unsafe Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { return }
    fsync(folder)
    Glibc.close(folder)
  }
}
