import Cryptography
import Glibc

/// A self-signed certificate and its key in files of a folder that goes with the fixture.
final class TLSFixture {
  struct Failure: Error {}

  let folder: String
  var certificate: String { "\(folder)/certificate.pem" }
  var key: String { "\(folder)/key.pem" }

  init() throws {
    folder = "/tmp/latchkey-tls-files-\(SecureRandom.bytes(8).map { String($0, radix: 16) }.joined())"
    try run("mkdir \(folder)")
    try renew()
  }

  deinit {
    try? run("rm -rf \(folder)")
  }

  /// Another certificate and key under the same names.
  func renew() throws {
    try run(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
        + " -keyout \(key) -out \(certificate)"
    )
  }

  func take(certificate path: String) throws { try run("cp \(path) \(certificate)") }

  func take(key path: String) throws { try run("cp \(path) \(key)") }

  private func run(_ command: String) throws {
    // The command is made of the test's own constants.
    guard unsafe system("( \(command) ) >/dev/null 2>&1") == 0 else { throw Failure() }
  }
}
