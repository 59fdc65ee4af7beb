import CQREncode
import Glibc

/// A QR symbol as a square of dark and light modules (ISO/IEC 18004), without its quiet zone.
///
/// The renderers are extensions: `terminalText`, `png`, `svg`.
package struct QRMatrix: Sendable, Equatable {
  /// How much of the symbol may be dirty or hidden and still be read.
  package enum Correction: Sendable, CaseIterable {
    /// About 7 % of the codewords.
    case low
    /// About 15 %: right for a screen.
    case medium
    /// About 25 %.
    case quartile
    /// About 30 %: for print.
    case high

    fileprivate var level: QRecLevel {
      switch self {
      case .low: QR_ECLEVEL_L
      case .medium: QR_ECLEVEL_M
      case .quartile: QR_ECLEVEL_Q
      case .high: QR_ECLEVEL_H
      }
    }
  }

  /// Modules on a side: 17 + 4 × version.
  package let size: Int
  /// Row by row; true is dark.
  private let modules: [Bool]

  /// The smallest symbol that holds `text` as UTF-8 bytes.
  package init(encoding text: String, correction: Correction = .medium) throws(QRCodeError) {
    try self.init(encoding: Array(text.utf8), correction: correction)
  }

  /// The smallest symbol that holds `bytes`.
  package init(encoding bytes: [UInt8], correction: Correction = .medium) throws(QRCodeError) {
    guard !bytes.isEmpty else { throw .emptyContent }
    guard bytes.count <= Limits.maximumContentBytes else {
      throw .contentTooLong(bytes: bytes.count, limit: Limits.maximumContentBytes)
    }
    // libqrencode reads `bytes.count` bytes during the call and keeps nothing; the count fits Int32 by the limit above.
    let encoded = unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe QRcode_encodeData(Int32(bytes.count), bytes.baseAddress, 0, correction.level)
    }
    guard let code = unsafe encoded else {
      let reason = errno
      throw reason == ENOMEM ? .outOfMemory : .library(operation: "QRcode_encodeData", code: reason)
    }
    // `code` is ours alone until it is freed here, once, after the last read.
    defer { unsafe QRcode_free(code) }
    let size = unsafe Int(code.pointee.width)
    guard size > 0, let data = unsafe code.pointee.data else {
      throw .library(operation: "QRcode_encodeData", code: EINVAL)
    }
    // `data` holds width × width bytes (qrencode.h); the lowest bit of each says dark.
    self.size = size
    self.modules = unsafe UnsafeBufferPointer(start: data, count: size * size).map { $0 & 1 == 1 }
  }

  /// Whether the module is dark. Everything outside the symbol is light: the quiet zone.
  package func isDark(row: Int, column: Int) -> Bool {
    guard (0..<size).contains(row), (0..<size).contains(column) else { return false }
    return modules[row * size + column]
  }

  /// Refuses borders and modules that would make a picture nobody wants, before memory is taken for it.
  static func checkLayout(quietZone: Int, moduleSize: Int = 1) throws(QRCodeError) {
    guard (0...Limits.maximumQuietZone).contains(quietZone) else {
      throw .layoutOutOfRange("the quiet zone is 0 to \(Limits.maximumQuietZone) modules")
    }
    guard (1...Limits.maximumModuleSize).contains(moduleSize) else {
      throw .layoutOutOfRange("a module is 1 to \(Limits.maximumModuleSize) pixels")
    }
  }
}
