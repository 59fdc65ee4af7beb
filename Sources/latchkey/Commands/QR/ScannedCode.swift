import Cryptography
import Glibc
import LatchkeyClient

/// What a scan showed, kept until the person decides: the device key signs exactly that.
struct ScannedCode: Equatable {
  var clientID: String
  var action: QRAction?
  /// When the time to agree is over, in milliseconds since 1970 by this machine's clock.
  var end: Int64?

  init(_ scan: QRScan) {
    end = Self.now + Output.milliseconds(scan.expiresIn)
    clientID = scan.clientID
    action = scan.action
  }

  /// Nil for bytes that ``encoded()`` did not write.
  init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes), let clientID = json["client_id"]?.string else { return nil }
    self.clientID = clientID
    end = json["end"]?.integer
    guard let text = json["text"]?.string else { return }
    action = QRAction(
      text: text,
      amount: json["amount"]?.string ?? "",
      currency: json["currency"]?.string ?? "",
      reference: json["reference"]?.string ?? ""
    )
  }

  var isOver: Bool { end.map { Self.now > $0 } ?? false }

  private static var now: Int64 { Int64(time(nil)) * 1000 }

  func encoded() -> [UInt8] {
    var members = [JSONValue.Member("client_id", .string(clientID))]
    if let end { members.append(.init("end", .integer(end))) }
    if let action {
      members += [
        .init("text", .string(action.text)), .init("amount", .string(action.amount)),
        .init("currency", .string(action.currency)), .init("reference", .string(action.reference)),
      ]
    }
    return JSONValue.object(members).encoded()
  }
}
