import LatchkeyModel

/// Tells what a scanned code is for, by exact comparison: scheme, host and port byte for byte, and whole path segments.
/// A host that only contains, begins or ends like an allowed one is somebody else's.
public struct ScanRouter: Sendable {
  private let base: QRVerificationBase?
  private let allowed: [QRVerificationBase]

  /// An allowed address that cannot be compared byte for byte.
  public struct UnusableAddress: Error, Sendable, Equatable {
    public let address: String
  }

  /// - Parameters:
  ///   - qrBase: where this installation's codes point, as in ``ClientConfiguration/qrBase``.
  ///   - pages: addresses that may be opened with everything below them, such as `https://help.example/app`: `http` or
  ///     `https`, a lower-case host, optionally a port and a path, without a final slash.
  public init(qrBase: String, pages: [String] = []) throws(UnusableAddress) {
    base = QRVerificationBase(qrBase)
    var allowed: [QRVerificationBase] = []
    for page in pages {
      guard let address = QRVerificationBase(page) else { throw UnusableAddress(address: page) }
      allowed.append(address)
    }
    self.allowed = allowed
  }

  public func route(_ content: String) -> ScanRoute {
    if let base, let payload = try? QRPayload(reading: content, base: base) { return .signIn(payload.text) }
    return allowed.contains { Self.isBelow($0, content) } ? .page(content) : .unknown
  }

  private static func isBelow(_ address: QRVerificationBase, _ content: String) -> Bool {
    guard content.utf8.count <= Limits.scannedBytes, content.utf8.starts(with: address.text.utf8) else { return false }
    let rest = content.utf8.dropFirst(address.text.utf8.count)
    // What follows must begin another part of the URL; an `@` or a `.` would make another host of it.
    guard let next = rest.first else { return true }
    guard [UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#")].contains(next) else { return false }
    // Visible ASCII only, no backslash, and no step upwards: browsers read these in ways of their own.
    let text = String(decoding: rest, as: UTF8.self).lowercasedASCII
    return rest.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\\") }
      && !text.contains("/..") && !text.contains("%2e") && !text.contains("%2f") && !text.contains("%5c")
  }
}
