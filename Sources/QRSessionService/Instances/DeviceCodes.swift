import Cryptography
import LatchkeyModel

/// Device codes that every instance knows for its installation's own without asking storage: 160 random bits, the second
/// in which the code's time ends, and an authentication of both.
///
/// An instance looks a code up that it has not met. For made-up codes that would be a query for each poll; these are
/// told from real ones here, and real ones are looked up once: from then on they are in memory until after their time.
struct DeviceCodes: Sendable {
  static let secretByteCount = 32
  private static let randomByteCount = 20
  private static let tagByteCount = 8

  private let secret: [UInt8]

  /// `secret` is the same for all instances.
  init(secret: [UInt8]) {
    self.secret = secret
  }

  /// - Parameter expires: when nobody polls the code any more, whatever became of it.
  func draw(from random: RandomSource, expires: Timestamp) -> PollSecret {
    let second = UInt32(clamping: expires.secondsSinceEpoch + 1)
    let body = random.bytes(Self.randomByteCount) + Self.bytes(second)
    guard let code = PollSecret(bytes: body + tag(body), in: random.cell) else {
      preconditionFailure("20, 4 and 8 bytes are 32")
    }
    return code
  }

  /// Whether an instance drew the code, and its time is not over yet.
  func isCurrent(_ code: PollSecret, at now: Timestamp) -> Bool {
    let body = Array(code.bytes.dropLast(Self.tagByteCount))
    let second = body.dropFirst(Self.randomByteCount).reduce(Int64(0)) { $0 << 8 | Int64($1) }
    guard now.secondsSinceEpoch <= second else { return false }
    return ConstantTime.equals(tag(body), Array(code.bytes.suffix(Self.tagByteCount)))
  }

  private func tag(_ body: [UInt8]) -> [UInt8] {
    Array(
      HMACSHA256.authenticate(Array("latchkey qr device code 1".utf8) + body, key: secret).prefix(Self.tagByteCount))
  }

  private static func bytes(_ number: UInt32) -> [UInt8] {
    [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
  }
}
