internal import Glibc

/// A range of addresses as CIDR writes it (RFC 4632, RFC 4291 section 2.3), such as `10.0.0.0/8`. An IPv4 address and
/// the same one inside IPv6 (RFC 4291 section 2.5.5.2) are one address.
package struct NetworkPrefix: Sendable, Equatable {
  private let address: [UInt8]
  private let bits: Int
  /// As it was written.
  package let text: String

  package init?(_ text: String) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2, let (address, isFour) = Self.bytes(String(parts[0])), let length = Int(parts[1]),
      (0...(isFour ? 32 : 128)).contains(length)
    else { return nil }
    self.text = text
    self.address = address
    bits = isFour ? 96 + length : length
  }

  package func contains(_ text: String) -> Bool {
    guard let (other, _) = Self.bytes(text) else { return false }
    let whole = bits / 8
    guard address[..<whole] == other[..<whole] else { return false }
    let rest = bits % 8
    return rest == 0 || (address[whole] ^ other[whole]) >> UInt8(8 - rest) == 0
  }

  /// 16 bytes, IPv4 as mapped into IPv6.
  private static func bytes(_ text: String) -> (bytes: [UInt8], isFour: Bool)? {
    var four = in_addr()
    // Both calls read the text up to its NUL and write one address through the pointer.
    if unsafe inet_pton(AF_INET, text, &four) == 1 {
      let value = UInt32(bigEndian: four.s_addr)
      let tail = stride(from: UInt32(24), through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
      return ([UInt8](repeating: 0, count: 10) + [0xFF, 0xFF] + tail, true)
    }
    var six = [UInt8](repeating: 0, count: 16)
    let isSix = unsafe six.withUnsafeMutableBytes { unsafe inet_pton(AF_INET6, text, $0.baseAddress) == 1 }
    return isSix ? (six, false) : nil
  }
}
