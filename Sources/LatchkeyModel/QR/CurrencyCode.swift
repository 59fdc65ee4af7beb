/// The money of ISO 4217 that people pay with: three capital letters, such as `EUR`. Codes of metals, funds and tests
/// are none, because nobody who reads them on a phone knows what they would pay.
package struct CurrencyCode: Sendable, Hashable, LosslessStringConvertible {
  package let description: String

  package init?(_ text: String) {
    guard Self.known.contains(text) else { return nil }
    description = text
  }

  /// Digits after the point: most have cents.
  package var decimals: Int {
    if Self.withoutDecimals.contains(description) { return 0 }
    return Self.withThousandths.contains(description) ? 3 : 2
  }

  private static let withoutDecimals: Set = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF",
  ]
  private static let withThousandths: Set = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"]

  private static let known = Set(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS
    INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP
    MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VED VES VND
    VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """.split(whereSeparator: \.isWhitespace).map(String.init))
}
