import CZlib
import Testing

@testable import QRCode

@Suite struct RenderingTests {
  private let matrix: QRMatrix

  init() throws {
    matrix = try QRMatrix(encoding: "https://example.test/q/1/AAAAAAAAAAAAAAAAAAAAAA")
  }

  @Test("Every PNG chunk is well-formed, its CRC right, and the inflated pixels are the symbol")
  func png() throws {
    let moduleSize = 3
    let quietZone = 4
    let png = try matrix.png(moduleSize: moduleSize, quietZone: quietZone)
    #expect(Array(png.prefix(8)) == [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])

    var chunks: [(type: String, data: [UInt8])] = []
    var offset = 8
    while offset < png.count {
      let length = Int(number(png, at: offset))
      let body = Array(png[(offset + 4)..<(offset + 8 + length)])
      #expect(number(png, at: offset + 8 + length) == crc(body))
      chunks.append((String(decoding: body.prefix(4), as: UTF8.self), Array(body.dropFirst(4))))
      offset += 12 + length
    }
    #expect(offset == png.count)
    #expect(chunks.map(\.type) == ["IHDR", "IDAT", "IEND"])

    let side = (matrix.size + 2 * quietZone) * moduleSize
    #expect(Int(number(chunks[0].data, at: 0)) == side)
    #expect(Int(number(chunks[0].data, at: 4)) == side)
    #expect(Array(chunks[0].data.dropFirst(8)) == [1, 0, 0, 0, 0])

    let stride = 1 + (side + 7) / 8
    let pixels = inflated(chunks[1].data, count: stride * side)
    #expect(pixels.count == stride * side)
    for y in 0..<side {
      #expect(pixels[y * stride] == 0)
      for x in 0..<side {
        let isWhite = pixels[y * stride + 1 + x / 8] >> (7 - UInt8(x % 8)) & 1 == 1
        let isDark = matrix.isDark(row: y / moduleSize - quietZone, column: x / moduleSize - quietZone)
        if isWhite == isDark { Issue.record("pixel \(x),\(y)") }
      }
    }
  }

  @Test("The SVG is as large as its modules and quiet zone say, and its runs cover the dark modules")
  func svg() throws {
    let svg = try matrix.svg(moduleSize: 5, quietZone: 2)
    let side = matrix.size + 4
    #expect(svg.contains("width=\"\(side * 5)\" height=\"\(side * 5)\""))
    #expect(svg.contains("viewBox=\"0 0 \(side) \(side)\""))
    let path = try #require(svg.split(separator: "<path d=\"").last?.split(separator: "\"").first)
    let covered = path.split(separator: "M").reduce(0) { sum, run in
      // "x yhLENGTHv1h-LENGTHz"
      let length = run.split(separator: "h")[1].split(separator: "v")[0]
      return sum + (Int(length) ?? 0)
    }
    var dark = 0
    for row in 0..<matrix.size {
      for column in 0..<matrix.size where matrix.isDark(row: row, column: column) { dark += 1 }
    }
    #expect(covered == dark)
  }

  @Test(
    "The terminal's lines carry two rows of modules each, the light ones drawn, and name their own colours",
    arguments: [1, 2, 4])
  func terminal(quietZone: Int) throws {
    let text = try matrix.terminalText(quietZone: quietZone)
    let lines = text.split(separator: "\n")
    let side = matrix.size + 2 * quietZone
    #expect(lines.count == (side + 1) / 2)
    #expect(matrix.terminalSize(quietZone: quietZone) == (side, lines.count))
    for (index, line) in lines.enumerated() {
      #expect(line.hasPrefix("\u{1B}[38;5;231;48;5;16m"))
      #expect(line.hasSuffix("\u{1B}[0m"))
      let cells = Array(line.dropFirst("\u{1B}[38;5;231;48;5;16m".count).dropLast("\u{1B}[0m".count))
      #expect(cells.count == side)
      for (column, cell) in cells.enumerated() {
        let row = 2 * index - quietZone
        let upper = matrix.isDark(row: row, column: column - quietZone)
        let lower = matrix.isDark(row: row + 1, column: column - quietZone)
        #expect((cell == "█" || cell == "▀") != upper)
        #expect((cell == "█" || cell == "▄") != lower)
      }
    }
  }

  @Test("Without colours the light modules are the ones drawn")
  func plainTerminal() throws {
    let text = try matrix.terminalText(quietZone: 2, style: .plain)
    #expect(!text.contains("\u{1B}"))
    #expect(text.split(separator: "\n").first == Substring(String(repeating: "█", count: matrix.size + 4)))
  }

  @Test("Borders and modules out of range are refused before memory is taken")
  func layout() {
    #expect(throws: QRCodeError.self) { try matrix.png(moduleSize: 0) }
    #expect(throws: QRCodeError.self) { try matrix.png(moduleSize: 49) }
    #expect(throws: QRCodeError.self) { try matrix.svg(quietZone: -1) }
    #expect(throws: QRCodeError.self) { try matrix.terminalText(quietZone: 33) }
  }

  private func number(_ bytes: [UInt8], at offset: Int) -> UInt32 {
    bytes[offset..<(offset + 4)].reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// CRC-32 bit by bit, as ISO/IEC 15948 annex D defines it: not the library's own.
  private func crc(_ bytes: [UInt8]) -> UInt32 {
    var remainder: UInt32 = 0xFFFF_FFFF
    for byte in bytes {
      remainder ^= UInt32(byte)
      for _ in 0..<8 { remainder = remainder & 1 == 1 ? remainder >> 1 ^ 0xEDB8_8320 : remainder >> 1 }
    }
    return ~remainder
  }

  private func inflated(_ bytes: [UInt8], count: Int) -> [UInt8] {
    // zlib writes at most `length` bytes into the buffer and reads `bytes.count`; neither is kept.
    unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      var length = UInt(count)
      let result = unsafe bytes.withUnsafeBufferPointer { source in
        unsafe uncompress(buffer.baseAddress, &length, source.baseAddress, UInt(source.count))
      }
      initialized = result == Z_OK ? Int(length) : 0
    }
  }
}
