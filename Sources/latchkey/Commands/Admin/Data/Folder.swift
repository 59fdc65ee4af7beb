import Cryptography
import Glibc

/// What the commands that copy do with folders.
///
/// The unsafe calls without a word of their own pass a path as a NUL-terminated copy, which lives as long as the call.
enum Folder {
  static func holds(_ name: String, in folder: String) -> Bool { exists("\(folder)/\(name)") }

  static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }

  /// Makes the folder and those above it, for the owner only, where they are not there.
  static func make(_ path: String) throws(CommandFailure) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/") {
      prefix += "\(component)/"
      if unsafe mkdir(prefix, 0o700) != 0, errno != EEXIST { throw failure("make", prefix) }
    }
  }

  /// The names in a folder, with whether each is a folder too; what is neither that nor a file is left out.
  static func contents(_ path: String) throws(CommandFailure) -> [(name: String, isFolder: Bool)] {
    guard let folder = unsafe opendir(path) else { throw failure("read", path) }
    defer { unsafe closedir(folder) }
    var found: [(name: String, isFolder: Bool)] = []
    // An entry and its NUL-terminated name stay until the next call, and are copied before it.
    while let entry = unsafe readdir(folder) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { name in
        unsafe String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
      }
      guard name != ".", name != ".." else { continue }
      var status = stat()
      // lstat fills the one struct that it is given.
      guard unsafe lstat("\(path)/\(name)", &status) == 0 else { continue }
      let kind = status.st_mode & S_IFMT
      if kind == S_IFREG || kind == S_IFDIR { found.append((name, kind == S_IFDIR)) }
    }
    return found.sorted { $0.name < $1.name }
  }

  /// Removes a folder with all that is in it.
  static func remove(_ path: String) throws(CommandFailure) {
    for (name, isFolder) in try contents(path) {
      if isFolder { try remove("\(path)/\(name)") } else { try removeFile("\(path)/\(name)") }
    }
    guard unsafe rmdir(path) == 0 else { throw failure("remove", path) }
  }

  static func removeFile(_ path: String) throws(CommandFailure) {
    guard unsafe unlink(path) == 0 || errno == ENOENT else { throw failure("remove", path) }
  }

  static func rename(_ path: String, to name: String) throws(CommandFailure) {
    guard unsafe Glibc.rename(path, name) == 0 else { throw failure("rename", path) }
  }

  /// Waits until a file's bytes, or a folder's names, are on the disk.
  static func synchronize(_ path: String) throws(CommandFailure) {
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw failure("open", path) }
    defer { close(file) }
    guard fsync(file) == 0 else { throw failure("write", path) }
  }

  static func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  private static func failure(_ what: String, _ path: String) -> CommandFailure {
    CommandFailure(.file, "cannot \(what) \(path): \(SystemError.text(errno))")
  }
}

/// A folder that has its name once all of it is there and on the disk; until then it is called `….unfinished`.
struct NewFolder {
  let path: String
  private let name: String

  /// Begins anew where an earlier command did not come to its end.
  init(_ name: String) throws(CommandFailure) {
    let name = name.hasSuffix("/") ? String(name.dropLast()) : name
    guard !name.isEmpty, !Folder.exists(name) else {
      throw CommandFailure(.file, "\(name) is there already: name a folder that is to be made")
    }
    self.name = name
    path = "\(name).unfinished"
    if Folder.exists(path) { try Folder.remove(path) }
    try Folder.make(path)
  }

  func finish() throws(CommandFailure) {
    try Folder.synchronize(path)
    try Folder.rename(path, to: name)
    try Folder.synchronize(Folder.parent(of: name))
  }
}
