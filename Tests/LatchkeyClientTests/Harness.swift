import GRPC
import Glibc
import LatchkeyClient
import LatchkeyModel
import Synchronization

/// A device, its secret store in a temporary folder, and a small identity service in this process.
final class Harness: Sendable {
  static let refresh = "/latchkey.identity.v1.AuthService/Refresh"
  static let introspect = "/latchkey.identity.v1.AuthService/Introspect"
  static let issueGuest = "/latchkey.identity.v1.GuestService/IssueGuest"

  let folder: TemporaryFolder
  let store: FaultySecretStore
  let clock = TestClock()
  let identity: SmallIdentity
  let channel: LoopbackChannel

  init() {
    folder = TemporaryFolder()
    store = FaultySecretStore(FileSecretStore(directory: "\(folder.path)/profile"))
    identity = SmallIdentity(clock: clock)
    channel = LoopbackChannel(identity.routes)
  }

  /// A fresh start of the app on this device, with a clock that may be wrong by `skew`.
  func device(skew: Duration = .zero) -> DeviceClient {
    DeviceClient(
      configuration: ClientConfiguration(clientID: "test-app", qrBase: "https://login.example"),
      secrets: store,
      identity: channel,
      qr: channel,
      migrator: channel,
      clock: SkewedClock(clock, skew)
    )
  }

  func startGuest() async throws -> GuestStart {
    try await device().startAsGuest(DeviceDescription(label: "test"))
  }
}

/// Stands still until a test moves it.
final class TestClock: WallClock {
  private let time = Mutex(Timestamp(secondsSinceEpoch: 1_800_000_000))

  func now() -> Timestamp { time.withLock { $0 } }

  func advance(by duration: Duration) {
    time.withLock { $0 = $0 + duration }
  }
}

struct SkewedClock: WallClock {
  let clock: TestClock
  let skew: Duration

  init(_ clock: TestClock, _ skew: Duration) {
    self.clock = clock
    self.skew = skew
  }

  func now() -> Timestamp { clock.now() + skew }
}

/// A folder that goes away with its owner.
final class TemporaryFolder: Sendable {
  let path: String

  init() {
    var template = Array("/tmp/latchkey-client-XXXXXX".utf8CString)
    // mkdtemp replaces the six X within the array and returns its address.
    let made = unsafe template.withUnsafeMutableBufferPointer { template in
      guard let start = template.baseAddress else { return false }
      return unsafe mkdtemp(start) != nil
    }
    precondition(made, "tests need a temporary folder")
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    remove(path)
  }

  private func remove(_ path: String) {
    // The paths live as NUL-terminated copies for the length of each call; an entry lives until the next readdir.
    if let directory = unsafe opendir(path) {
      while let entry = unsafe readdir(directory) {
        let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
          unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
        }
        if name != ".", name != ".." { remove("\(path)/\(name)") }
      }
      unsafe closedir(directory)
      unsafe rmdir(path)
    } else {
      unsafe unlink(path)
    }
  }
}
