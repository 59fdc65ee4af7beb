/// The text of a device code in a form that is compared in a few instructions.
struct DeviceCodeText: Equatable {
  /// 32 bytes in base64url.
  private static let byteCount = 43

  private let words: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

  /// Nil unless it is as long as a device code.
  init?(_ text: Span<UInt8>) {
    guard text.count == Self.byteCount else { return nil }
    words = unsafe text.withUnsafeBytes { bytes in
      // The last word overlaps the one before it and ends where the text ends.
      unsafe (
        bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 24, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 32, as: UInt64.self),
        bytes.loadUnaligned(fromByteOffset: 35, as: UInt64.self)
      )
    }
  }

  static func == (left: DeviceCodeText, right: DeviceCodeText) -> Bool {
    left.words == right.words
  }
}
