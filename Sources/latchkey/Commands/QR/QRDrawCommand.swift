import ArgumentParser

struct QRDrawCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "draw",
    abstract: "Draw any text as a QR code, such as a payload from qr issue --json.",
    examples: ["latchkey qr draw https://login.example --svg code.svg"]
  )

  @OptionGroup var picture: QRPicture
  @OptionGroup var color: ColorOption

  @Argument(help: "What the code is to hold.")
  var content: String

  func run() async throws {
    let output = Output(json: false)
    do {
      output.drawing(try picture.show(content))
    } catch {
      output.failure(error)
      throw ExitCode(error.status.rawValue)
    }
  }
}
