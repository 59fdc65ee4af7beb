import CSSL

/// One reference to a certificate.
///
/// OpenSSL counts references with atomics and does not change a certificate that is only read.
@safe
final class X509Certificate: @unchecked Sendable {
  let pointer: OpaquePointer

  /// Takes over a reference that the caller owned.
  init(owning pointer: OpaquePointer) {
    unsafe self.pointer = unsafe pointer
  }

  deinit {
    // The reference is this object's own.
    unsafe X509_free(pointer)
  }

  /// The subject alternative names that can identify a service: DNS names, URIs and IP addresses as text, in the
  /// certificate's order. A name with bytes outside printable ASCII is left out: no check should be fooled by one.
  var subjectAlternativeNames: [String] {
    // The extension is decoded into a list of its own, freed here; each name's bytes live as long as the list.
    guard let raw = unsafe X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil) else { return [] }
    let names = OpaquePointer(raw)
    defer { unsafe lk_general_names_free(names) }
    var result: [String] = []
    for index in 0..<(unsafe lk_general_names_count(names)) {
      var kind: Int32 = 0
      var length: Int32 = 0
      guard
        let name = unsafe lk_general_names_at(names, index),
        let bytes = unsafe lk_general_name_bytes(name, &kind, &length), length > 0
      else { continue }
      let value = unsafe Array(UnsafeBufferPointer(start: bytes, count: Int(length)))
      if kind == GEN_IPADD {
        if let text = Self.addressText(value) { result.append(text) }
      } else if value.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) {
        result.append(String(decoding: value, as: UTF8.self))
      }
    }
    return result
  }

  /// An address as text: dotted for IPv4, eight groups of hexadecimal without zero compression for IPv6.
  private static func addressText(_ bytes: [UInt8]) -> String? {
    switch bytes.count {
    case 4:
      return bytes.map { String($0) }.joined(separator: ".")
    case 16:
      return stride(from: 0, to: 16, by: 2)
        .map { String(UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]), radix: 16) }
        .joined(separator: ":")
    default:
      return nil
    }
  }
}
