import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Turns the fields of requests into values that are valid by type, or says which field is not and why.
enum RequestFields {
  static func clientID(_ text: String, _ field: String = "client_id") throws(RPCError) -> ClientID {
    guard let id = ClientID(text) else {
      throw .invalid(field, "must be 1 to \(ClientID.maximumLength) lower-case letters, digits, '.', '_' or '-'")
    }
    return id
  }

  /// Empty means absent.
  static func displayText(_ text: String, _ field: String) throws(RPCError) -> DisplayText? {
    if text.isEmpty { return nil }
    guard let value = DisplayText(text) else {
      throw .invalid(
        field, "must be one line of at most \(DisplayText.maximumCharacters) characters, without a space at its ends")
    }
    return value
  }

  /// Empty means absent.
  static func locale(_ text: String, _ field: String = "locale") throws(RPCError) -> LanguageTag? {
    if text.isEmpty { return nil }
    guard let value = LanguageTag(text) else { throw .invalid(field, "must be a language tag, such as en or pt-BR") }
    return value
  }

  /// Empty means absent.
  static func nickname(_ text: String, _ field: String = "nickname") throws(RPCError) -> Nickname? {
    if text.isEmpty { return nil }
    guard let value = Nickname(text) else {
      throw .invalid(
        field, "must be one line of at most \(Nickname.maximumCharacters) characters, without a space at its ends")
    }
    return value
  }

  static func identifier(_ text: String, _ field: String) throws(RPCError) -> AccountIdentifier {
    guard let value = AccountIdentifier(text) else {
      throw .invalid(
        field,
        "must be an e-mail address, a phone number such as +14155550123, or a user name of 3 to 32 letters, digits, "
          + "'.', '_' or '-' that begins with a letter")
    }
    return value
  }

  /// Empty means absent.
  static func avatar(_ text: String, _ field: String = "avatar_url") throws(RPCError) -> AvatarURL? {
    if text.isEmpty { return nil }
    guard let value = AvatarURL(text) else {
      throw .invalid(field, "must be an https address of at most \(AvatarURL.maximumLength) characters")
    }
    return value
  }

  /// An identifier that a message can be sent to.
  static func address(_ text: String, _ field: String) throws(RPCError) -> AccountIdentifier {
    let identifier = try identifier(text, field)
    guard identifier.isAddress else {
      throw .invalid(field, "must be an e-mail address or a phone number: nothing can be sent to a user name")
    }
    return identifier
  }

  static func customID(_ text: String, _ field: String) throws(RPCError) -> CustomID {
    guard let id = CustomID(text) else {
      let (least, most) = (CustomID.length.lowerBound, CustomID.length.upperBound)
      throw .invalid(field, "must be \(least) to \(most) letters, digits, '-' or '_', random, such as a UUID")
    }
    return id
  }

  static func newCustomSecret(_ text: String, _ field: String) throws(RPCError) -> Password {
    guard let secret = CustomSecret.new(text) else {
      throw .invalid(
        field, "must have \(CustomSecret.minimumCharacters) to \(Password.maximumCharacters) characters, random")
    }
    return secret
  }

  static func pattern(_ text: String, _ field: String) throws(RPCError) -> UnlockPattern {
    guard let pattern = UnlockPattern(text) else {
      let (least, most) = (UnlockPattern.length.lowerBound, UnlockPattern.length.upperBound)
      throw .invalid(field, "must be \(least) to \(most) visible ASCII characters")
    }
    return pattern
  }

  static func newPassword(_ text: String, _ field: String) throws(RPCError) -> Password {
    guard let value = Password(new: text) else {
      throw .invalid(field, "must have \(Password.minimumCharacters) to \(Password.maximumCharacters) characters")
    }
    return value
  }

  static func presentedPassword(_ text: String, _ field: String) throws(RPCError) -> Password {
    guard let value = Password(presented: text) else {
      throw .invalid(field, text.isEmpty ? "is missing" : "is too long for a password")
    }
    return value
  }

  static func deviceID(_ text: String, _ field: String) throws(RPCError) -> DeviceID {
    do throws(DeviceID.Refusal) {
      return try DeviceID(parsing: text)
    } catch {
      throw .invalid(field, error.explanation)
    }
  }

  static func publicKey(_ jwk: CommonV1.EcPublicJwk?, _ field: String) throws(RPCError) -> P256PublicKey {
    try point(jwk, field) { x, y throws(CryptographyError) in try P256PublicKey(x: x, y: y) }
  }

  /// A key of which only the name is needed.
  static func keyPoint(_ jwk: CommonV1.EcPublicJwk?, _ field: String) throws(RPCError) -> P256Point {
    try point(jwk, field) { x, y throws(CryptographyError) in try P256Point(x: x, y: y) }
  }

  private static func point<Point>(
    _ jwk: CommonV1.EcPublicJwk?,
    _ field: String,
    _ make: ([UInt8], [UInt8]) throws(CryptographyError) -> Point
  ) throws(RPCError) -> Point {
    guard let jwk else { throw .invalid(field, "is missing") }
    guard jwk.kty == "EC" else { throw .invalid("\(field).kty", "must be EC") }
    guard jwk.crv == "P-256" else { throw .invalid("\(field).crv", "must be P-256") }
    guard let x = Base64URL.decode(jwk.x), x.count == 32 else {
      throw .invalid("\(field).x", "must be 32 bytes as base64url without padding")
    }
    guard let y = Base64URL.decode(jwk.y), y.count == 32 else {
      throw .invalid("\(field).y", "must be 32 bytes as base64url without padding")
    }
    do throws(CryptographyError) {
      return try make(x, y)
    } catch {
      throw .invalid(field, "is no point on the curve P-256")
    }
  }

  static func scope(_ text: String, _ field: String = "scope") throws(RPCError) -> Scope {
    guard let value = Scope(text) else { throw .invalid(field, "must be scope tokens separated by spaces") }
    return value
  }

  /// Errors: `OTHER_CELL` for an id of another cell than this one.
  static func subjectID(_ text: String, _ field: String, in cell: Cell) throws(RPCError) -> SubjectID {
    guard let value = SubjectID(text) else { throw .invalid(field, "must be a subject's id") }
    try cell.requireSame(value.cell)
    return value
  }

  /// The same for a session.
  static func sessionID(_ text: String, _ field: String, in cell: Cell) throws(RPCError) -> SessionID {
    guard let value = SessionID(text) else { throw .invalid(field, "must be a session's id") }
    try cell.requireSame(value.cell)
    return value
  }

  /// An id that another service chose: visible ASCII.
  static func foreignID(_ text: String, _ field: String) throws(RPCError) -> String {
    guard (1...Limits.foreignIDCharacters).contains(text.utf8.count),
      text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
    else { throw .invalid(field, "must be 1 to \(Limits.foreignIDCharacters) visible ASCII characters") }
    return text
  }

  /// Empty means absent.
  static func codeHandle(_ text: String, _ field: String, in cell: Cell) throws(RPCError) -> String {
    guard text.utf8.count <= 64 else { throw .invalid(field, "must be the handle of a SendOtpResponse") }
    if text.hasPrefix(CodeMint.handlePrefix) {
      try cell.requireSame(Cell.read(text.dropFirst(CodeMint.handlePrefix.count)).cell)
    }
    return text
  }

  static func token(_ text: String, _ field: String) throws(RPCError) -> String {
    guard !text.isEmpty else { throw .invalid(field, "is missing") }
    guard text.utf8.count <= Limits.tokenCharacters else { throw .invalid(field, "is too long for a token") }
    return text
  }
}
