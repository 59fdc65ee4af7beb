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

  /// As much at a time as keeps memory small, however long the file is.
  private static let chunk = (records: 10_000, bytes: 4 * 1024 * 1024)

  func run(_ device: DeviceClient, _ settings: Settings, _ output: Output) async throws {
    var written: Int64 = 0
    var records: [Record] = []
    var bytes = 0
    var number = 0
    let now = Int64(time(nil)) * 1000
    var progress = Progress(size: InputFile.size(path))
    var lines = try InputFile(path)
    defer { progress.clear() }
    while let line = try lines.line() {
      number += 1
      progress.read(line.count + 1)
      if line.isEmpty { continue }
      records.append(try RecordLine.record(line, number: number, now: now))
      bytes += line.count
      if records.count >= Self.chunk.records || bytes >= Self.chunk.bytes {
        written += try await put(records, after: written, device)
        progress.show(written)
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

  /// Records, the rate, and the time that is left where the file's size is known: one live line at a terminal.
  private struct Progress {
    let size: Int64?
    private let line = LiveLine()
    private let start = ContinuousClock.now
    private var bytes: Int64 = 0

    init(size: Int64?) { self.size = size }

    mutating func read(_ count: Int) { bytes += Int64(count) }

    func show(_ written: Int64) {
      let seconds = start.duration(to: .now) / .seconds(1)
      guard seconds > 0.2 else { return }
      var text = "\(written) records, \(Int64(Double(written) / seconds)) a second"
      if let size, size > 0, bytes > 0 {
        let share = min(1, Double(bytes) / Double(size))
        text += ", \(Int(share * 100)) %, \(Int(seconds / share - seconds) + 1) s left"
      }
      line.show(text)
    }

    func clear() { line.clear() }
  }
}
