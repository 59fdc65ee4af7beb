import Glibc
import TLS

/// A certificate authority for one test, made by the `openssl` command in a temporary directory that goes with it.
final class TestAuthority {
  enum KeyKind: String {
    case p256 = "ec -pkeyopt ec_paramgen_curve:P-256"
    case rsa2048 = "rsa:2048"
  }

  struct Failure: Error {
    var command: String
    var status: Int32
  }

  /// The authority's own certificate.
  let pem: [UInt8]
  private let directory: String
  private var issued = 0

  init(name: String = "Test authority") throws {
    directory = try makeTemporaryDirectory()
    try run(
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=\(name)'"
        + " -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign"
        + " -keyout ca.key -out ca.pem",
      in: directory
    )
    pem = try readFile("\(directory)/ca.pem")
  }

  deinit {
    try? run("rm -rf '\(directory)'", in: "/")
  }

  var trust: TLSTrust {
    get throws { try TLSTrust(pem: pem) }
  }

  /// A certificate for `names`, such as `DNS:localhost,IP:127.0.0.1`. Negative `days` make one that has expired.
  func identity(_ names: String, days: Int = 30, key: KeyKind = .p256) throws -> TLSIdentity {
    let (certificate, privateKey) = try leaf(names, days: days, key: key)
    return try TLSIdentity(certificateChain: certificate, privateKey: privateKey)
  }

  /// The PEM of a certificate and of its key.
  func leaf(
    _ names: String,
    days: Int = 30,
    key: KeyKind = .p256
  ) throws -> (certificate: [UInt8], key: [UInt8]) {
    issued += 1
    let leaf = "leaf\(issued)"
    try run(
      "openssl req -new -newkey \(key.rawValue) -nodes -subj '/CN=\(leaf)' -addext 'subjectAltName=\(names)'"
        + " -addext basicConstraints=critical,CA:FALSE -keyout \(leaf).key -out \(leaf).csr"
        + " && openssl x509 -req -in \(leaf).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days \(days)"
        + " -copy_extensions copyall -out \(leaf).pem",
      in: directory
    )
    return (try readFile("\(directory)/\(leaf).pem"), try readFile("\(directory)/\(leaf).key"))
  }

  /// A certificate whose key is sealed with a password.
  func encryptedLeaf(_ names: String) throws -> (certificate: [UInt8], key: [UInt8]) {
    let (certificate, _) = try leaf(names)
    try run(
      "openssl pkcs8 -topk8 -in leaf\(issued).key -passout pass:secret -out sealed\(issued).key",
      in: directory
    )
    return (certificate, try readFile("\(directory)/sealed\(issued).key"))
  }
}

private func makeTemporaryDirectory() throws -> String {
  var template = Array("/tmp/latchkey-tls-XXXXXX".utf8CString)
  // mkdtemp writes within the array, which is NUL-terminated.
  guard unsafe mkdtemp(&template) != nil else { throw TestAuthority.Failure(command: "mkdtemp", status: errno) }
  return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

private func run(_ command: String, in directory: String) throws {
  // The command is made of the test's own constants.
  let status = unsafe system("cd '\(directory)' && ( \(command) ) >/dev/null 2>&1")
  guard status == 0 else { throw TestAuthority.Failure(command: command, status: status) }
}

private func readFile(_ path: String) throws -> [UInt8] {
  let descriptor = unsafe open(path, O_RDONLY)
  guard descriptor >= 0 else { throw TestAuthority.Failure(command: "open \(path)", status: errno) }
  defer { close(descriptor) }
  var content: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 4096)
  while true {
    // `read` writes at most the array's count.
    let count = unsafe read(descriptor, &chunk, chunk.count)
    guard count > 0 else { return content }
    content.append(contentsOf: chunk.prefix(count))
  }
}
