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
      """,
    examples: [
      "latchkey record put records.jsonl",
      #"echo '{"collection":"cart","key":"mug","value":"Mug"}' | latchkey record put"#,
    ]
  )

  @OptionGroup var options: DeviceOptions

  @Argument(help: "A file of such lines; - is standard input.")
  var path = "-"

  /// As much at a time as keeps memory small, however long the file is, and as is stored within a moment on a machine that
  /// has other things to do.
  private static let chunk = (records: 2000, bytes: 2 * 1024 * 1024)

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    var written: Int64 = 0
    var records: [Record] = []
    var bytes = 0
    var number = 0
    let now = Int64(time(nil)) * 1000
    let size = InputFile.size(path).map { Double(max(1, $0)) }
    var read = 0
    var progress = ProgressBar()
    var lines = try InputFile(path)
    defer { progress.clear() }
    if size != nil { progress.show(0, 0, "records") }
    while let line = try lines.line() {
      number += 1
      read += line.count + 1
      if line.isEmpty { continue }
      records.append(try RecordLine.record(line, number: number, now: now))
      bytes += line.count
      if records.count >= Self.chunk.records || bytes >= Self.chunk.bytes {
        written += try await put(records, after: written, device)
        progress.show(size.map { Double(read) / $0 }, written, "records")
        records.removeAll(keepingCapacity: true)
        bytes = 0
      }
    }
    written += try await put(records, after: written, device)
    progress.clear()
    output.result("Records stored: \(written).", ["written": .integer(written)])
  }

  /// Says of a failure how far it came: what was stored before stays stored.
  private func put(_ records: [Record], after written: Int64, _ device: DeviceClient) async throws -> Int64 {
    do throws(ClientError) {
      return try await device.putRecords(records)
    } catch {
      guard written > 0 else { throw error }
      var failure = CommandFailure(error)
      failure.message += "; \(written) records were stored before, and those of the last \(records.count) that fitted"
      throw failure
    }
  }
}
