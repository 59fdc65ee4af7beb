import Testing

@testable import QRCode

@Suite struct QRMatrixTests {
  @Test("The three finder patterns stand in their corners, each with its light border")
  func finderPatterns() throws {
    let matrix = try QRMatrix(encoding: "https://example.test/q/1/AAAAAAAAAAAAAAAAAAAAAA")
    #expect((matrix.size - 17) % 4 == 0)
    let last = matrix.size - 7
    for (top, left) in [(0, 0), (0, last), (last, 0)] {
      for row in -1...7 {
        for column in -1...7 {
          let ring = max(abs(row - 3), abs(column - 3))
          // Rings of a finder, outward: dark 3 × 3 core, light, dark, light separator.
          let expected = ring <= 1 || ring == 3
          #expect(matrix.isDark(row: top + row, column: left + column) == expected, "\(row),\(column)")
        }
      }
    }
  }

  @Test("Timing patterns alternate between the finders")
  func timingPatterns() throws {
    let matrix = try QRMatrix(encoding: "latchkey")
    for index in 8..<(matrix.size - 8) {
      #expect(matrix.isDark(row: 6, column: index) == (index % 2 == 0))
      #expect(matrix.isDark(row: index, column: 6) == (index % 2 == 0))
    }
  }

  @Test("More correction never makes a smaller symbol, and the content decides the version")
  func sizes() throws {
    let text = String(repeating: "a", count: 60)
    let sizes = try QRMatrix.Correction.allCases.map { try QRMatrix(encoding: text, correction: $0).size }
    #expect(sizes == sizes.sorted())
    // ISO/IEC 18004 table 7: version 1-M holds 14 bytes, version 4-M 62, version 5-M 84.
    #expect(try QRMatrix(encoding: String(repeating: "a", count: 14)).size == 21)
    #expect(try QRMatrix(encoding: String(repeating: "a", count: 15)).size == 25)
    #expect(try QRMatrix(encoding: String(repeating: "a", count: 62)).size == 33)
    #expect(try QRMatrix(encoding: String(repeating: "a", count: 63)).size == 37)
  }

  @Test("Content that is empty or too long is refused, the longest is not")
  func contentBounds() throws {
    #expect(throws: QRCodeError.emptyContent) { try QRMatrix(encoding: "") }
    #expect(throws: QRCodeError.contentTooLong(bytes: 513, limit: 512)) {
      try QRMatrix(encoding: [UInt8](repeating: 0, count: 513))
    }
    _ = try QRMatrix(encoding: [UInt8](repeating: 0, count: 512), correction: .high)
  }

  @Test("Everything outside the symbol is light")
  func outside() throws {
    let matrix = try QRMatrix(encoding: "x")
    #expect(!matrix.isDark(row: -1, column: 0))
    #expect(!matrix.isDark(row: 0, column: -1))
    #expect(!matrix.isDark(row: matrix.size, column: 0))
    #expect(!matrix.isDark(row: 0, column: matrix.size))
  }
}
