import JSON

/// A choice that was begun, and the key that it is to end with: kept before the service hears of it, until the key is the
/// device's.
struct CloneResolution: Equatable {
  static let name = "clone-resolution"

  var choice: CloneChoice
  var next: DeviceRecord

  init(choice: CloneChoice, next: DeviceRecord) {
    self.choice = choice
    self.next = next
  }

  /// Nil for bytes that ``encoded()`` did not write.
  init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes),
      let choice = json["choice"]?.string.flatMap({ CloneChoice(rawValue: $0) }),
      let next = json["next"].flatMap({ DeviceRecord($0.encoded()) })
    else { return nil }
    self.init(choice: choice, next: next)
  }

  func encoded() -> [UInt8] {
    let json: JSONValue = ["choice": .string(choice.rawValue), "next": next.json]
    return json.encoded()
  }
}
