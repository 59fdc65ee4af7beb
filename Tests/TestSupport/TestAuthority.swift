import Glibc
import TLS

/// A certificate authority for one test, made by the `openssl` command in a temporary folder that goes with it.
package final class TestAuthority {
  package enum KeyKind: String {
    case p256 = "ec -pkeyopt ec_paramgen_curve:P-256"
    case rsa2048 = "rsa:2048"
  }

  package struct Failure: Error {
    package var command: String
    package var status: Int32
  }

  /// The authority's own certificate.
  package let pem: [UInt8]
  private let folder: TemporaryFolder
  private var issued = 0

  package init(name: String = "Test authority") throws {
    folder = try TemporaryFolder()
    try Self.run(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=\(name)'"
        + " -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        + " -keyout ca.key -out ca.pem",
      in: folder
    )
    pem = FileLook.contents(of: folder.file("ca.pem"))
  }

  package var trust: TLSTrust {
    get throws { try TLSTrust(pem: pem) }
  }

  /// A certificate for `names`, such as `DNS:localhost,IP:127.0.0.1`. Negative `days` make one that has expired.
  package func identity(_ names: String, days: Int = 30, key: KeyKind = .p256) throws -> TLSIdentity {
    let (certificate, privateKey) = try leaf(names, days: days, key: key)
    return try TLSIdentity(certificateChain: certificate, privateKey: privateKey)
  }

  /// The PEM of a certificate and of its key.
  package func leaf(
    _ names: String,
    days: Int = 30,
    key: KeyKind = .p256
  ) throws -> (certificate: [UInt8], key: [UInt8]) {
    issued += 1
    let leaf = "leaf\(issued)"
    try Self.run(
      "openssl req -new -newkey \(key.rawValue) -nodes -subj '/CN=\(leaf)' -addext 'subjectAltName=\(names)'"
        + " -addext basicConstraints=critical,CA:FALSE -keyout \(leaf).key -out \(leaf).csr"
        + " && openssl x509 -req -in \(leaf).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days \(days)"
        + " -copy_extensions copyall -out \(leaf).pem",
      in: folder
    )
    return (FileLook.contents(of: folder.file("\(leaf).pem")), FileLook.contents(of: folder.file("\(leaf).key")))
  }

  /// A certificate whose key is sealed with a password.
  package func encryptedLeaf(_ names: String) throws -> (certificate: [UInt8], key: [UInt8]) {
    let (certificate, _) = try leaf(names)
    try Self.run(
      "openssl pkcs8 -topk8 -in leaf\(issued).key -passout pass:secret -out sealed\(issued).key",
      in: folder
    )
    return (certificate, FileLook.contents(of: folder.file("sealed\(issued).key")))
  }

  private static func run(_ command: String, in folder: TemporaryFolder) throws {
    // The command is made of the test's own constants.
    let status = unsafe system("cd '\(folder.path)' && ( \(command) ) >/dev/null 2>&1")
    guard status == 0 else { throw Failure(command: command, status: status) }
  }
}
