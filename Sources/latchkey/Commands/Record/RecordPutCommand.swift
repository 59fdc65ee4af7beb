import ArgumentParser
import Cryptography
import Glibc
import LatchkeyClient

struct RecordPutCommand: DeviceCommand {
  static let configuration = CommandConfiguration(
    commandName: "put",
    abstract: "Store records, one a line of JSON.",
    discussion: """
      A line: {"collection": "cart", "key": "tt0060315", "value": "text", "number": 2, \
      "updated_at": "2026-11-01T18:00:00Z"}
      number and updated_at may be left out; value_base64url takes the place of value for bytes that are no text.
      """
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "A file of such lines; - is standard input.")
  var path = "-"

  /// As much at a time as keeps memory small, however long the file is.
  private static let chunk = (records: 10_000, bytes: 4 * 1024 * 1024)

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    var written: Int64 = 0
    var records: [Record] = []
    var bytes = 0
    var number = 0
    let now = Int64(time(nil)) * 1000
    var lines = try InputFile(path)
    while let line = try lines.line() {
      number += 1
      if line.isEmpty { continue }
      records.append(try RecordLine.record(line, number: number, now: now))
      bytes += line.count
      if records.count >= Self.chunk.records || bytes >= Self.chunk.bytes {
        written += try await device.putRecords(records)
        records.removeAll(keepingCapacity: true)
        bytes = 0
      }
    }
    written += try await device.putRecords(records)
    output.result("Records stored: \(written).", ["written": .integer(written)])
  }
}
