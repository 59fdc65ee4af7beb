import Cryptography
import LatchkeyModel
import ServiceRuntime
import Storage

/// The signing keys as rows that all instances have, each sealed by the secret that is mounted at all of them: whoever reads
/// or copies the database signs nothing, and a row that was changed there is not believed.
struct SealedKeyStore: SigningKeyStore {
  private let rows: any SharedSigningKeys
  private let secret: RedactedSecret
  /// As for ``EndedSessionTail``: what a server says counts from the last sign of life that it took.
  private let membership: Membership?

  /// - Parameter secret: 32 bytes, used for nothing else.
  init(_ rows: any SharedSigningKeys, secret: RedactedSecret, membership: Membership?) {
    self.rows = rows
    self.secret = secret
    self.membership = membership
  }

  var isShared: Bool { true }

  func load() async throws(SigningKeyError) -> SigningKeyReading {
    let start = start
    let found: SealedSigningKeys
    do throws(StorageError) {
      found = try await rows.all()
    } catch {
      throw .storage(error)
    }
    return try opened(found, since: start)
  }

  func change(
    _ decide: @escaping SigningKeyDecision
  ) async throws(SigningKeyError) -> (change: SigningKeyChange, reading: SigningKeyReading) {
    let start = start
    let found: (outcome: Result<SigningKeyChange, SigningKeyError>, keys: SealedSigningKeys)
    do throws(StorageError) {
      found = try await rows.change { sealed in
        do throws(SigningKeyError) {
          let change = try decide(try sealed.keys.map(open), sealed.time)
          let new = try change.new.map(seal)
          return (SealedSigningKeyChange(new: new, gone: change.gone.map(\.id)), .success(change))
        } catch {
          return (SealedSigningKeyChange(), .failure(error))
        }
      }
    } catch {
      throw .storage(error)
    }
    return (try found.outcome.get(), try opened(found.keys, since: start))
  }

  /// Takes over the keys of a directory where there are none yet: of an installation that had them in files until now. False
  /// for one that was left from long ago: whoever found it since would sign with its keys.
  ///
  /// - Parameter period: how long a key signs.
  @discardableResult
  func adopt(_ directory: SigningKeyDirectory, period: Duration) async throws(SigningKeyError) -> Bool {
    let reading = try await load()
    guard reading.keys.isEmpty, FileContents.exists(directory.path) else { return true }
    let found = try directory.load()
    guard let newest = found.map(\.entry.notBefore).max() else { return true }
    guard reading.time < newest + period + period else { return false }
    _ = try await change { keys, _ in SigningKeyChange(new: keys.isEmpty ? found : []) }
    return true
  }

  private var start: (moment: ContinuousClock.Instant, server: String?) {
    let life = membership?.life
    return (min(.now, life?.heard ?? .now), life?.server)
  }

  private func opened(
    _ found: SealedSigningKeys, since start: (moment: ContinuousClock.Instant, server: String?)
  ) throws(SigningKeyError) -> SigningKeyReading {
    if let server = start.server, server != found.server { throw .otherServer }
    return SigningKeyReading(keys: try found.keys.map(open), time: found.time, asOf: start.moment, heard: .now)
  }

  private func seal(_ key: SigningKey) throws(SigningKeyError) -> SealedSigningKey {
    guard let pem = try? key.key.pem() else { throw .unmade }
    let context = Self.context(key.entry.id, key.entry.notBefore)
    return SealedSigningKey(
      id: key.entry.id, notBefore: key.entry.notBefore,
      sealed: AES256GCM.seal(pem, key: secret.exposed, context: context))
  }

  private func open(_ row: SealedSigningKey) throws(SigningKeyError) -> SigningKey { try Self.open(row, with: secret) }

  static func open(_ row: SealedSigningKey, with secret: RedactedSecret) throws(SigningKeyError) -> SigningKey {
    guard let pem = AES256GCM.open(row.sealed, key: secret.exposed, context: context(row.id, row.notBefore)),
      let key = try? P256PrivateKey(pem: pem), key.publicKey.thumbprint == row.id
    else { throw .sealed(row.id) }
    return SigningKey(key, notBefore: row.notBefore)
  }

  /// What a row says beside the key is as it was when the key was sealed.
  private static func context(_ id: String, _ notBefore: Timestamp) -> [UInt8] {
    Array("latchkey-signing-key-v1 \(id) \(notBefore.millisecondsSinceEpoch)".utf8)
  }
}
