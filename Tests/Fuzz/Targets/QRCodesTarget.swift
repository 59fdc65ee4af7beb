import LatchkeyModel

/// What a scanner or a keyboard puts in: the payload of a QR code, user codes, tickets.
struct QRCodesTarget: FuzzTarget {
  let name = "qr-codes"

  func run(_ input: UnsafeRawBufferPointer) {
    // Copied.
    let bytes = unsafe Array(input)
    let text = String(decoding: bytes, as: UTF8.self)
    for base in ["https://login.example", "http://127.0.0.1:7402"] {
      guard let base = QRVerificationBase(base) else { preconditionFailure("a good base was refused") }
      guard let payload = try? QRPayload(reading: text, base: base) else { continue }
      precondition(payload.text == text, "a payload that reads otherwise than it is written")
      precondition(text.utf8.starts(with: base.text.utf8), "a payload of another host")
    }
    if let base = QRVerificationBase(text) { precondition(base.text == text && !text.contains("@")) }
    if let reference = QRReference(text: text) { precondition(reference.text == text) }
    if let code = UserCode(typed: text) { precondition(UserCode(typed: code.text) == code) }
    if let ticket = ConfirmTicket(text: text) { precondition(ConfirmTicket(text: ticket.text)?.text == ticket.text) }
    if let decoded = Base64URL.decode(bytes) { precondition(Array(Base64URL.encode(decoded).utf8) == bytes) }
    _ = CheckCode(typed: text)
    _ = PollSecret(text: text)
    _ = PKCEChallenge(text: text)
    if let scope = Scope(text) { precondition(Scope(scope.description) == scope) }
    _ = ClientID(text)
    _ = DisplayText(text)
  }
}
