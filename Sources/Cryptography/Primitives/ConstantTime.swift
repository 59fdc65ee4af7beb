import CCrypto

/// Comparison of secrets that takes as long for a near miss as for a far one (R3).
package enum ConstantTime {
  /// The length of the two may show in the time, their content does not.
  package static func equals(_ left: [UInt8], _ right: [UInt8]) -> Bool {
    guard left.count == right.count else { return false }
    // CRYPTO_memcmp reads `count` bytes from each array, both of which have that many.
    return unsafe left.withUnsafeBytes { left in
      unsafe right.withUnsafeBytes { right in
        unsafe CRYPTO_memcmp(left.baseAddress, right.baseAddress, left.count) == 0
      }
    }
  }

  package static func equals(_ left: String, _ right: String) -> Bool {
    equals(Array(left.utf8), Array(right.utf8))
  }
}
