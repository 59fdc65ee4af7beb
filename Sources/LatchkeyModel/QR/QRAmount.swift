/// An amount of money in the one form that means it: no sign, no spaces, no leading zero, and a point before as many
/// decimals as the currency has, or none.
package struct QRAmount: Sendable, Equatable {
  package static let maximumDigits = 12

  /// Such as `129.90`.
  package let decimal: String
  /// Of ISO 4217.
  package let currency: String

  package init?(decimal: String, currency: String) {
    guard let code = CurrencyCode(currency) else { return nil }
    let parts = decimal.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), (1...Self.maximumDigits).contains(parts[0].count),
      parts.allSatisfy({ $0.allSatisfy(\.isASCIIDigit) }),
      parts[0].count == 1 || parts[0].first != UInt8(ascii: "0")
    else { return nil }
    if parts.count == 2, code.decimals == 0 || parts[1].count != code.decimals { return nil }
    self.decimal = decimal
    self.currency = currency
  }
}
