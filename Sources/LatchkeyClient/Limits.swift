/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// An access token this close to its end is refreshed first: longer than a call takes on a slow network, short
  /// beside the 15 minutes that a token lives.
  static let refreshAhead: Duration = .seconds(20)

  /// How long an ordinary call may take in all: a person waits for it.
  static let callTimeout: Duration = .seconds(20)

  /// How long calls under way may take when the client is closed.
  static let closeGrace: Duration = .seconds(5)

  /// How long a health check may take: slower is not healthy.
  static let healthTimeout: Duration = .seconds(5)

  /// The longest wait that PollSession takes, by its definition.
  static let longPoll: Duration = .seconds(25)

  /// What a long poll's call may take beyond its wait, for the way there and back.
  static let longPollMargin: Duration = .seconds(10)

  /// How long writing records may take in all: bulk uploads on a slow uplink.
  static let uploadTimeout: Duration = .seconds(600)

  /// How long one watch may last before it is taken up again, so that a dead connection is noticed.
  static let watchTimeout: Duration = .seconds(300)

  /// Records in one PutRecords message. A message is one transaction and at most 64 KiB by default, so it is also
  /// cut by size.
  static let recordsPerMessage = 100

  /// Bytes of records in one PutRecords message: half of what a service takes, since keys and times come on top.
  static let recordBytesPerMessage = 32 * 1024

  /// The first wait after a watch or poll broke off, doubled up to `longestPause`.
  static let firstPause: Duration = .milliseconds(200)
  static let longestPause: Duration = .seconds(5)

  /// Attempts to reach the service before a wait gives up: with the pauses above about half a minute, enough for a
  /// restart of the service and short enough for a person.
  static let attempts = 10

  /// A scanned text that is looked at: a QR code holds 2,953 bytes at most.
  static let scannedBytes = 2953

  /// How long the code that was handled last is taken for the same look at it.
  static let scanRepetition: Duration = .seconds(3)

  /// Codes that a screen shows one after the other without anybody scanning one: half an hour of two-minute codes, after
  /// which somebody has to want another.
  static let codesInARow = 15

  /// The issuer's keys are fetched anew after the first, not more often than the second, and given up after the third:
  /// a new key is published ten minutes before it signs.
  static let keysFresh: Duration = .seconds(300)
  static let keysDistance: Duration = .seconds(10)
  static let keysTimeout: Duration = .seconds(5)

  /// Leading zero bits that this client will search for: 2^24 hashes are some seconds on a phone.
  static let proofOfWorkBits: Int32 = 24

  /// Calls that redeem a transfer, the first included, when answers are lost: the code is used up by the first that
  /// arrives, and only the same proof is answered again.
  static let redeemTries = 3

  /// The longest time that a service is believed: a hundred years, beyond any lifetime of ours.
  static let longestToldSeconds: Int64 = 100 * 365 * 86_400

  /// What an app keeps of an action that waits for a sign-in: a comment or an order, not a photograph.
  static let pendingPayloadBytes = 64 * 1024
  /// The action's name: as much as a gate's may have.
  static let pendingActionBytes = 256

  /// How long a change of a secret waits for others that change it: each takes a file that is written and synchronised,
  /// so this is enough for hundreds, and a process that was stopped in the middle holds nobody up for longer.
  static let lockPatience: Duration = .seconds(5)
  /// Microseconds between two looks whether it is done.
  static let lockPause: UInt32 = 1000

  /// Codes under way: a person waits for one, or for two when they mistyped the first address.
  static let codeHandles = 8

  /// The longest secret that a file holds: a pending action is kept in base64url, in JSON that may escape each byte of
  /// its name to six.
  static let secretBytes = 128 * 1024
}
