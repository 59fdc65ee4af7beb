internal import JSON
package import LatchkeyModel
package import Logging

/// Writes each event as one line (R42), a JSON object or text: what a value contains cannot end the line or add a member.
package struct LineLogHandler: LogHandler {
  package var logLevel: Logger.Level
  package var metadata: Logger.Metadata = [:]
  package var metadataProvider: Logger.MetadataProvider?

  private let label: String
  private let format: LogFormat
  private let isColoured: Bool
  private let clock: any WallClock
  private let write: Write

  /// Takes one whole line with its newline, whether it tells little, and what makes one that says how many before it are lost.
  package typealias Write = @Sendable (_ line: [UInt8], _ isMinor: Bool, _ loss: (_ lines: Int) -> [UInt8]) -> Void

  /// - Parameters:
  ///   - isColoured: whether text shows its level in colour.
  ///   - write: by default, to standard error.
  package init(
    label: String,
    level: Logger.Level,
    format: LogFormat = .json,
    isColoured: Bool = false,
    clock: any WallClock = SystemClock(),
    write: @escaping Write = StandardStream.log
  ) {
    self.label = label
    self.logLevel = level
    self.format = format.resolved
    self.isColoured = isColoured
    self.clock = clock
    self.write = write
  }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    var fields = metadata
    if let provided = metadataProvider?.get() { fields.merge(provided) { $1 } }
    if let own = event.metadata { fields.merge(own) { $1 } }
    if let error = event.error { fields["error"] = .string(String(describing: error)) }
    // What was done is of level notice: what floods a log, refused calls, must not push it out.
    write(line(event.level, event.message.description, fields), event.level < .notice) { lines in
      line(.warning, "lines of this log are lost: nobody read them in time", ["lines": .stringConvertible(lines)])
    }
  }

  private func line(_ level: Logger.Level, _ message: String, _ fields: Logger.Metadata) -> [UInt8] {
    var members: [JSONValue.Member] = [
      .init("time", .string(clock.now().rfc3339)),
      .init("level", .string(level.rawValue)),
      .init("logger", .string(label)),
      .init("message", .string(Self.bounded(message))),
    ]
    for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
      // A field of the caller's must not pass for one of ours.
      let name = Self.reserved.contains(name) ? "\(name)_" : name
      members.append(.init(name, SecretNames.contains(name) ? "[redacted]" : Self.json(value)))
    }
    return switch format {
    case .text: LogFormat.textLine(members, isColoured: isColoured)
    case .json, .auto: JSONValue.object(members).encoded() + [0x0A]
    }
  }

  private static let reserved: Set<String> = ["time", "level", "logger", "message"]

  private static func json(_ value: Logger.Metadata.Value) -> JSONValue {
    switch value {
    case .string(let text): .string(bounded(text))
    case .stringConvertible(let value): .string(bounded(value.description))
    case .array(let values): .array(values.map(json))
    case .dictionary(let fields):
      .object(
        fields.sorted { $0.key < $1.key }.map { name, value in
          .init(name, SecretNames.contains(name) ? "[redacted]" : json(value))
        }
      )
    }
  }

  private static func bounded(_ text: String) -> String {
    guard text.utf8.count > Limits.logTextBytes else { return text }
    return String(decoding: text.utf8.prefix(Limits.logTextBytes), as: UTF8.self) + "…"
  }
}
