internal import Compression

extension QRMatrix {
  /// The symbol as a PNG image, greyscale, one bit a pixel (ISO/IEC 15948).
  package func png(moduleSize: Int = 8, quietZone: Int = 4) throws(QRCodeError) -> [UInt8] {
    try QRMatrix.checkLayout(quietZone: quietZone, moduleSize: moduleSize)
    let side = (size + 2 * quietZone) * moduleSize

    var header = QRMatrix.bigEndian(UInt32(side)) + QRMatrix.bigEndian(UInt32(side))
    // Bit depth 1, colour type greyscale, deflate, the adaptive filter method, not interlaced.
    header += [1, 0, 0, 0, 0]

    var png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    QRMatrix.appendChunk("IHDR", header, to: &png)
    QRMatrix.appendChunk(
      "IDAT",
      try QRMatrix.deflated(scanlines(moduleSize: moduleSize, quietZone: quietZone)),
      to: &png
    )
    QRMatrix.appendChunk("IEND", [], to: &png)
    return png
  }

  /// Filter byte 0 and then the pixels, eight to a byte, for each line; a set bit is white.
  private func scanlines(moduleSize: Int, quietZone: Int) -> [UInt8] {
    let side = (size + 2 * quietZone) * moduleSize
    var lines: [UInt8] = []
    lines.reserveCapacity(side * (side / 8 + 2))
    for row in -quietZone..<(size + quietZone) {
      var line = [UInt8](repeating: 0xFF, count: 1 + (side + 7) / 8)
      line[0] = 0
      for column in 0..<size where isDark(row: row, column: column) {
        let left = (column + quietZone) * moduleSize
        for pixel in left..<(left + moduleSize) { line[1 + pixel / 8] &= ~(0x80 >> UInt8(pixel % 8)) }
      }
      for _ in 0..<moduleSize { lines += line }
    }
    return lines
  }

  private static func deflated(_ bytes: [UInt8]) throws(QRCodeError) -> [UInt8] {
    do throws(CompressionError) {
      return try Zlib.compress(bytes)
    } catch {
      switch error {
      case .library(let operation, let code): throw .library(operation: operation, code: code)
      case .outOfMemory, .corrupt, .truncated, .overLimit: throw .outOfMemory
      }
    }
  }

  /// Length, type, data, and the CRC-32 of type and data.
  private static func appendChunk(_ type: String, _ data: [UInt8], to png: inout [UInt8]) {
    let body = Array(type.utf8) + data
    png += bigEndian(UInt32(data.count)) + body + bigEndian(Zlib.crc32(body))
  }

  private static func bigEndian(_ value: UInt32) -> [UInt8] {
    [UInt8(value >> 24), UInt8(value >> 16 & 0xFF), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)]
  }
}
