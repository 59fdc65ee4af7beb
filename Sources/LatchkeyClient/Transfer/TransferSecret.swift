/// What a person typed or a camera read.
public enum TransferSecret: Sendable, Equatable {
  case code(String)
  case payload(String)

  /// A URL is a QR code's content, anything else was typed.
  public init(_ text: String) {
    self = text.contains("://") ? .payload(text) : .code(text)
  }
}
