internal import Cryptography
internal import Glibc

/// The folder of a service's database and keys.
enum DataDirectory {
  /// Creates the folder and those above it, for the owner only.
  static func prepare(_ path: String) throws(StartupError) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for component in path.split(separator: "/") {
      prefix += "\(component)/"
      // The path is copied for the call.
      if unsafe mkdir(prefix, 0o700) != 0, errno != EEXIST {
        throw StartupError("dataDir \(path): cannot create \(prefix): \(SystemError.text(errno))")
      }
    }
    guard unsafe access(path, W_OK | X_OK) == 0 else {
      throw StartupError("dataDir \(path) cannot be written to: \(SystemError.text(errno))")
    }
  }
}
