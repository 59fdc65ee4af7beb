import Cryptography
import LatchkeyClient

import enum LatchkeyModel.Base64URL

/// One record as a line of JSON:
/// `{"collection": "cart", "key": "tt0060315", "value": "…", "number": 2, "updated_at": "2026-11-01T18:00:00Z"}`.
///
/// `value` is text; `value_base64url` takes its place for other bytes. `number` and `updated_at` may be left out.
enum RecordLine {
  private static let names: Set<String> = [
    "collection", "key", "value", "value_base64url", "number", "updated_at", "revision",
  ]

  static func record(_ line: [UInt8], number: Int, now: Int64) throws(CommandFailure) -> Record {
    let json: JSONValue
    do throws(JSONError) {
      json = try JSONValue(parsing: line)
    } catch {
      throw CommandFailure(.invalid, "line \(number): \(error)")
    }
    guard let members = json.members else { throw CommandFailure(.invalid, "line \(number): not an object") }
    if let unknown = members.first(where: { !names.contains($0.name) }) {
      throw CommandFailure(.invalid, "line \(number): unknown member \"\(unknown.name)\"")
    }
    func missing(_ what: String) -> CommandFailure { CommandFailure(.invalid, "line \(number): \(what)") }
    guard let collection = json["collection"]?.string else { throw missing("\"collection\" must be a text") }
    guard let key = json["key"]?.string else { throw missing("\"key\" must be a text") }
    var record = Record(collection: collection, key: key, value: [], updatedAt: now)
    switch (json["value"], json["value_base64url"]) {
    case (.string(let text), nil): record.value = Array(text.utf8)
    case (nil, .string(let text)):
      guard let bytes = Base64URL.decode(text) else { throw missing("\"value_base64url\" is not base64url") }
      record.value = bytes
    default: throw missing("one of \"value\" and \"value_base64url\" must be a text")
    }
    if let amount = json["number"] {
      guard let amount = amount.integer else { throw missing("\"number\" must be a whole number") }
      record.number = amount
    }
    if let time = json["updated_at"] {
      guard let milliseconds = RFC3339.milliseconds(time.string ?? "") else {
        throw missing("\"updated_at\" must be a time such as 2026-11-01T18:00:00Z")
      }
      record.updatedAt = milliseconds
    }
    return record
  }
}
