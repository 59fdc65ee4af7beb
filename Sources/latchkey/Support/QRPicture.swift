import ArgumentParser
import Glibc
import QRCode

/// Where a QR code is shown: in the terminal, as files, or both.
struct QRPicture: ParsableArguments {
  @Option(help: ArgumentHelp("Write the code as a PNG image.", valueName: "path"))
  var png: String?

  @Option(help: ArgumentHelp("Write the code as an SVG image.", valueName: "path"))
  var svg: String?

  @Flag(inversion: .prefixedNo, help: "Draw the code in the terminal.")
  var draw = true

  /// Writes the files that were asked for and returns what the terminal shows; empty when it shows nothing.
  func show(_ content: String) throws(CommandFailure) -> String {
    let drawing: String
    let image: [UInt8]
    let vector: String
    do throws(QRCodeError) {
      let matrix = try QRMatrix(encoding: content)
      drawing = draw ? try Self.drawing(matrix) : ""
      image = png == nil ? [] : try matrix.png()
      vector = svg == nil ? "" : try matrix.svg()
    } catch {
      throw CommandFailure(.invalid, "the code cannot be drawn: \(error)")
    }
    if let png { try OutputFile.write(image, to: png) }
    if let svg { try OutputFile.write(Array(vector.utf8), to: svg) }
    return drawing
  }

  /// The code, or a sentence where the terminal is too small: lines that wrap or scroll away are no code.
  private static func drawing(_ matrix: QRMatrix) throws(QRCodeError) -> String {
    let style: TerminalStyle = Style.isOn(STDOUT_FILENO) ? .coloured : .plain
    guard let size = Terminal.size(STDOUT_FILENO) else { return try matrix.terminalText(style: style) }
    for quietZone in quietZones {
      let needed = matrix.terminalSize(quietZone: quietZone)
      if needed.columns <= size.columns, needed.lines <= size.lines {
        return try matrix.terminalText(quietZone: quietZone, style: style)
      }
    }
    let needed = matrix.terminalSize(quietZone: quietZones.last ?? 0)
    return """
      The code does not fit: it needs \(needed.columns) columns and \(needed.lines) lines, and this terminal has \
      \(size.columns) and \(size.lines).
      Make the window larger or its letters smaller, or write a picture with --png.
      """
  }

  /// Light modules around the code: the standard's four, or what cameras need at least.
  private static let quietZones = [4, 2]
}
