import Cryptography
import LatchkeyClient

/// What a scan showed, kept until the person decides: the device key signs exactly that.
struct ScannedCode: Equatable {
  var clientID: String
  var action: QRAction?

  init(_ scan: QRScan) {
    clientID = scan.clientID
    action = scan.action
  }

  /// Nil for bytes that ``encoded()`` did not write.
  init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes), let clientID = json["client_id"]?.string else { return nil }
    self.clientID = clientID
    guard let text = json["text"]?.string else { return }
    action = QRAction(
      text: text,
      amount: json["amount"]?.string ?? "",
      currency: json["currency"]?.string ?? "",
      reference: json["reference"]?.string ?? ""
    )
  }

  func encoded() -> [UInt8] {
    var members = [JSONValue.Member("client_id", .string(clientID))]
    if let action {
      members += [
        .init("text", .string(action.text)), .init("amount", .string(action.amount)),
        .init("currency", .string(action.currency)), .init("reference", .string(action.reference)),
      ]
    }
    return JSONValue.object(members).encoded()
  }
}
