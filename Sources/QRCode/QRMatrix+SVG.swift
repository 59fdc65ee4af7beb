extension QRMatrix {
  /// The symbol as an SVG image: a white square and one path of dark runs, sharp at any size.
  package func svg(moduleSize: Int = 8, quietZone: Int = 4) throws(QRCodeError) -> String {
    try QRMatrix.checkLayout(quietZone: quietZone, moduleSize: moduleSize)
    let side = size + 2 * quietZone
    var path = ""
    for row in 0..<size {
      var column = 0
      while column < size {
        guard isDark(row: row, column: column) else {
          column += 1
          continue
        }
        var run = 1
        while isDark(row: row, column: column + run) { run += 1 }
        path += "M\(column + quietZone) \(row + quietZone)h\(run)v1h-\(run)z"
        column += run
      }
    }
    return """
      <?xml version="1.0" encoding="UTF-8"?>
      <svg xmlns="http://www.w3.org/2000/svg" width="\(side * moduleSize)" height="\(side * moduleSize)" \
      viewBox="0 0 \(side) \(side)" shape-rendering="crispEdges">
      <rect width="\(side)" height="\(side)" fill="#fff"/>
      <path d="\(path)" fill="#000"/>
      </svg>

      """
  }
}
