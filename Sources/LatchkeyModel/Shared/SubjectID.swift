/// Who a token speaks for: a guest or an account. Never reassigned, also not after deletion, and never shown to a
/// person.
package struct SubjectID: OpaqueID {
  package let value: OpaqueIDValue

  package init(value: OpaqueIDValue) {
    self.value = value
  }

  /// Names the subject's storage area on a device: 32 lower-case hexadecimal digits, because the file systems of
  /// some devices do not tell upper case from lower.
  package var storageNamespace: String {
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    text.reserveCapacity(32)
    for byte in bytes {
      text.append(digits[Int(byte >> 4)])
      text.append(digits[Int(byte & 15)])
    }
    return String(decoding: text, as: UTF8.self)
  }
}
