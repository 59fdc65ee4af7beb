/// The random identifier that an app made for itself at its first start.
///
/// A hardware identifier follows a person through resets, resales and other people's apps, so the formats of the known
/// ones are refused. A vendor identifier (IDFV) or a random UUID cannot be told apart from what we ask for, and need
/// not be: neither outlives the app's removal.
package struct DeviceID: Sendable, Hashable, LosslessStringConvertible {
  package static let length = 16...64

  /// Why a text is no device id.
  package enum Refusal: Error, Sendable, Equatable {
    case malformed
    case imei
    case meid
    case macAddress
    case androidID
    case udid
    case advertisingIDOptOut

    package var explanation: String {
      switch self {
      case .malformed: "must be 16 to 64 letters, digits, '-' or '_', random, such as a UUID"
      case .imei: "looks like an IMEI; hardware identifiers are refused, make a random one"
      case .meid: "looks like an MEID; hardware identifiers are refused, make a random one"
      case .macAddress: "looks like a MAC address; hardware identifiers are refused, make a random one"
      case .androidID: "looks like an Android ID; make a random one"
      case .udid: "looks like a UDID; hardware identifiers are refused, make a random one"
      case .advertisingIDOptOut: "is the all-zero advertising identifier; make a random one"
      }
    }
  }

  private let text: String

  package init?(_ text: String) {
    guard let id = try? DeviceID(parsing: text) else { return nil }
    self = id
  }

  package init(parsing text: String) throws(Refusal) {
    if let hardware = Self.hardwareFormat(of: text) { throw hardware }
    guard Self.length.contains(text.utf8.count) else { throw .malformed }
    for byte in text.utf8 where !byte.isASCIIAlphanumeric && byte != UInt8(ascii: "-") && byte != UInt8(ascii: "_") {
      throw .malformed
    }
    self.text = text
  }

  package var description: String { text }

  private static func hardwareFormat(of text: String) -> Refusal? {
    guard text.utf8.count <= length.upperBound else { return nil }
    let bytes = Array(text.utf8)
    let compact = bytes.filter { !"-:. ".utf8.contains($0) }
    guard compact.allSatisfy(\.isASCIIHexDigit), !compact.isEmpty else { return nil }
    let digitsOnly = compact.allSatisfy(\.isASCIIDigit)
    if compact.allSatisfy({ $0 == UInt8(ascii: "0") }), compact.count >= 12 { return .advertisingIDOptOut }
    switch compact.count {
    case 12: return .macAddress
    // EUI-64, the longer MAC address, is written in pairs.
    case 16 where bytes.count == 23: return .macAddress
    case 14 where !digitsOnly: return .meid
    // IMEI without its check digit, with it, and with a software version instead.
    case 14, 16: return digitsOnly ? .imei : .androidID
    case 15: return digitsOnly ? .imei : nil
    // UDID of older Apple devices (SHA-1), and of newer ones: 8 digits, a hyphen, 16 digits.
    case 40 where bytes.count == 40: return .udid
    case 24 where bytes.count == 25 && bytes[8] == UInt8(ascii: "-"): return .udid
    default: return nil
    }
  }
}
