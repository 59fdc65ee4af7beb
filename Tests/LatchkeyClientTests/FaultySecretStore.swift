import LatchkeyClient
import Synchronization

/// The file store of a temporary folder, failing where a test says.
final class FaultySecretStore: SecretStore {
  let files: FileSecretStore
  private let failing = Mutex<Set<SecretStoreError.Operation>>([])
  private let log = Mutex<[String]>([])

  init(_ files: FileSecretStore) {
    self.files = files
  }

  func fail(_ operations: Set<SecretStoreError.Operation>) {
    failing.withLock { $0 = operations }
  }

  /// Every change that succeeded, such as `save session`.
  var changes: [String] { log.withLock { $0 } }

  private func check(_ operation: SecretStoreError.Operation, _ name: String) throws(SecretStoreError) {
    guard failing.withLock({ !$0.contains(operation) }) else {
      throw SecretStoreError(operation, name, reason: "the keychain is locked")
    }
  }

  func secret(named name: String) throws(SecretStoreError) -> [UInt8]? {
    try check(.read, name)
    return try files.secret(named: name)
  }

  func add(_ secret: [UInt8], as name: String) throws(SecretStoreError) -> Bool {
    try check(.add, name)
    let added = try files.add(secret, as: name)
    if added { log.withLock { $0.append("add \(name)") } }
    return added
  }

  func save(_ secret: [UInt8], as name: String) throws(SecretStoreError) {
    try check(.save, name)
    try files.save(secret, as: name)
    log.withLock { $0.append("save \(name)") }
  }

  func update(
    _ name: String, _ change: ([UInt8]?) throws(SecretStoreError) -> [UInt8]
  ) throws(SecretStoreError) {
    try check(.read, name)
    try check(.save, name)
    try files.update(name, change)
    log.withLock { $0.append("save \(name)") }
  }

  func removeSecret(named name: String) throws(SecretStoreError) {
    try check(.remove, name)
    try files.removeSecret(named: name)
    log.withLock { $0.append("remove \(name)") }
  }
}
