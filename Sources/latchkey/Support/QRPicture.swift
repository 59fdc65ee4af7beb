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
    let style: TerminalStyle = isatty(STDOUT_FILENO) == 1 ? .coloured : .plain
    let drawing: String
    let image: [UInt8]
    let vector: String
    do throws(QRCodeError) {
      let matrix = try QRMatrix(encoding: content)
      drawing = draw ? try matrix.terminalText(style: style) : ""
      image = png == nil ? [] : try matrix.png()
      vector = svg == nil ? "" : try matrix.svg()
    } catch {
      throw CommandFailure(.invalid, "the code cannot be drawn: \(error)")
    }
    if let png { try OutputFile.write(image, to: png) }
    if let svg { try OutputFile.write(Array(vector.utf8), to: svg) }
    return drawing
  }
}
