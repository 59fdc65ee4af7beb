internal import Cryptography
internal import Glibc
internal import JSON

/// The file that tells whoever started a service which ports it took.
enum PortsFile {
  /// Writes `{"grpc": {"host": …, "port": …}, "management": {…}, "pid": …}`, whole or not at all.
  static func write(_ path: String, grpc: Endpoint, management: Endpoint) throws(StartupError) {
    let document: JSONValue = [
      "grpc": json(grpc), "management": json(management), "pid": .integer(Int64(getpid())),
    ]
    do throws(SecretFileError) {
      try SecretFile.replace(path, document.encoded() + [0x0A])
    } catch {
      throw StartupError("the ports file: \(error)")
    }
  }

  private static func json(_ endpoint: Endpoint) -> JSONValue {
    ["host": .string(endpoint.host), "port": .integer(Int64(endpoint.port))]
  }
}
