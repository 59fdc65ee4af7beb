import Cryptography
import Domain
import GRPC
import LatchkeyModel
import ServiceRuntime

/// A link ticket as the client holds it: `lkl_`, the prefix of its cell and base64url of 32 bytes. Only its hash is kept.
struct LinkTicketText {
  static let prefix = "lkl_"

  let text: String

  var hash: [UInt8] { SHA256Hash.hash(Array(text.utf8)) }

  static func make(_ random: RandomSource) -> LinkTicketText {
    LinkTicketText(text: prefix + random.cell.prefix + Base64URL.encode(random.bytes(32)))
  }

  /// The ticket of a request that may be asked again: the same for each of its repetitions, and known to nobody who has
  /// not the service's key.
  static func make(for replay: SignIn.Replay, key: RedactedSecret, in cell: Cell) -> LinkTicketText {
    let bytes = HMACSHA256.authenticate(Array("link ticket".utf8) + [0] + replay.key, key: key.exposed)
    return LinkTicketText(text: prefix + cell.prefix + Base64URL.encode(bytes))
  }

  /// The hash of a ticket that was presented.
  static func hash(_ presented: String, in cell: Cell) throws(RPCError) -> [UInt8] {
    guard presented.utf8.count <= 64, presented.hasPrefix(prefix) else {
      throw .invalid("link_ticket", "must be the link_ticket of a Conflict")
    }
    try cell.requireSame(Cell.read(presented.dropFirst(prefix.count)).cell)
    return SHA256Hash.hash(Array(presented.utf8))
  }
}
