internal import Compression

/// A picture as a PNG file (ISO/IEC 15948).
package struct PNGImage: Sendable {
  /// How the bytes of a row hold its pixels.
  package enum Pixels: Sendable {
    /// Eight pixels to a byte, a set bit is white.
    case blackAndWhite
    /// Three bytes to a pixel: red, green, blue.
    case colour
  }

  package let width: Int
  package let height: Int
  package let pixels: Pixels
  /// The rows from the top, each of whole bytes.
  package let rows: [[UInt8]]

  package init(width: Int, height: Int, pixels: Pixels, rows: [[UInt8]]) {
    self.width = width
    self.height = height
    self.pixels = pixels
    self.rows = rows
  }

  package func encoded() throws(QRCodeError) -> [UInt8] {
    var header = Self.bigEndian(UInt32(width)) + Self.bigEndian(UInt32(height))
    // Bit depth, colour type; then deflate, the adaptive filter method, not interlaced.
    switch pixels {
    case .blackAndWhite: header += [1, 0]
    case .colour: header += [8, 2]
    }
    header += [0, 0, 0]
    var lines: [UInt8] = []
    lines.reserveCapacity(rows.reduce(0) { $0 + $1.count + 1 })
    for row in rows {
      // Filter 0: the row as it is.
      lines.append(0)
      lines += row
    }
    var png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
    Self.appendChunk("IHDR", header, to: &png)
    Self.appendChunk("IDAT", try Self.deflated(lines), to: &png)
    Self.appendChunk("IEND", [], to: &png)
    return png
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
