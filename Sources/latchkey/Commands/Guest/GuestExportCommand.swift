import ArgumentParser
import Cryptography
import LatchkeyClient
import Synchronization

struct GuestExportCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "export",
    abstract: "Print everything that the service knows of you, one document a line.",
    discussion: "The last line has the type complete; without it the export is not.",
    examples: ["latchkey guest export >mine.jsonl"]
  )

  @OptionGroup var options: DeviceOptions

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    let lines = Mutex<[String]>([])
    let isDocument = options.json
    try await device.exportData { line in
      if isDocument { lines.withLock { $0.append(line) } } else { output.progress(TerminalText.json(line)) }
    }
    var documents: [JSONValue] = []
    for line in lines.withLock({ $0 }) {
      if let document = try? JSONValue(parsing: Array(line.utf8)) { documents.append(document) }
    }
    output.result("", ["export": .array(documents)])
  }
}
