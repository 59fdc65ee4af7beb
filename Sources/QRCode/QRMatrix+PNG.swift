extension QRMatrix {
  /// The symbol as a PNG image, one bit a pixel.
  package func png(moduleSize: Int = 8, quietZone: Int = 4) throws(QRCodeError) -> [UInt8] {
    try QRMatrix.checkLayout(quietZone: quietZone, moduleSize: moduleSize)
    let side = (size + 2 * quietZone) * moduleSize
    let rows = rows(moduleSize: moduleSize, quietZone: quietZone)
    return try PNGImage(width: side, height: side, pixels: .blackAndWhite, rows: rows).encoded()
  }

  private func rows(moduleSize: Int, quietZone: Int) -> [[UInt8]] {
    let side = (size + 2 * quietZone) * moduleSize
    var rows: [[UInt8]] = []
    for row in -quietZone..<(size + quietZone) {
      var line = [UInt8](repeating: 0xFF, count: (side + 7) / 8)
      for column in 0..<size where isDark(row: row, column: column) {
        let left = (column + quietZone) * moduleSize
        for pixel in left..<(left + moduleSize) { line[pixel / 8] &= ~(0x80 >> UInt8(pixel % 8)) }
      }
      for _ in 0..<moduleSize { rows.append(line) }
    }
    return rows
  }
}
