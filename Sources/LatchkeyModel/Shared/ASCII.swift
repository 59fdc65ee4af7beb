extension UInt8 {
  package var isASCIIDigit: Bool { (0x30...0x39).contains(self) }
  package var isASCIILowercase: Bool { (0x61...0x7A).contains(self) }
  package var isASCIIUppercase: Bool { (0x41...0x5A).contains(self) }
  package var isASCIILetter: Bool { isASCIILowercase || isASCIIUppercase }
  package var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }
  package var isASCIILowerAlphanumeric: Bool { isASCIILowercase || isASCIIDigit }
  package var isASCIIHexDigit: Bool {
    isASCIIDigit || (0x61...0x66).contains(self) || (0x41...0x46).contains(self)
  }
}

extension String {
  /// The text with A to Z in lower case and everything else as it was.
  package var lowercasedASCII: String {
    String(decoding: utf8.map { $0.isASCIIUppercase ? $0 + 32 : $0 }, as: UTF8.self)
  }
}
