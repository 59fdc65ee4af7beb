import Testing

@testable import LatchkeyModel

@Suite("Values that every service shares")
struct SharedTypesTests {
  @Test("An opaque id has exactly one text, and only that text reads back")
  func opaqueIDText() throws {
    let bytes = (0..<16).map { UInt8($0 * 16 + $0) }
    let id = try #require(SubjectID(bytes: bytes, in: .first))
    #expect(id.bytes == bytes)
    #expect(id.description.utf8.count == OpaqueIDValue.textLength(in: .first))
    #expect(SubjectID(id.description) == id)
    #expect(SubjectID(id.description + "=") == nil)
    #expect(SubjectID("") == nil)
    #expect(SubjectID(String(id.description.dropLast())) == nil)
    // The last of 22 characters carries two bits that must be zero.
    #expect(SubjectID(String(repeating: "A", count: 21) + "B") == nil)
    #expect(SubjectID(bytes: Array(bytes.dropLast()), in: .first) == nil)
  }

  @Test("No new id begins with a hyphen, which a command line takes for an option")
  func idsAreWords() {
    for first in UInt8.min...UInt8.max {
      let random = RandomSource { count in [first] + (1..<count).map { _ in UInt8.random(in: 0...255) } }
      let id = SubjectID(from: random)
      #expect(!id.description.hasPrefix("-"))
      #expect(SubjectID(id.description) == id)
    }
  }

  @Test("Neighbouring identifiers share their beginning in groups of 64, and nothing else")
  func neighbouringIdentifiers() {
    let random = RandomSource { count in (0..<count).map { _ in UInt8.random(in: 0...255) } }
      .withNeighbouringIdentifiers()
    let ids = (0..<640).map { _ in SubjectID(from: random).bytes }
    #expect(Set(ids).count == ids.count)
    for group in stride(from: 0, to: ids.count, by: 64) {
      #expect(Set(ids[group..<group + 64].map { $0.prefix(6) }).count == 1)
    }
    #expect(Set(ids.map { $0.prefix(6) }).count == 10)
    #expect(Set(ids.map { $0.suffix(10) }).count == ids.count)
    // Of a QR session four bytes, behind its cell and instance.
    let sessions = (0..<128).map { _ in QRSessionID(instance: 7, from: random).bytes }
    for group in [sessions[..<64], sessions[64...]] { #expect(Set(group.map { $0.prefix(8) }).count == 1) }
    #expect(Set(sessions.map { $0[4..<8] }).count == 2)
    #expect(Set(sessions.map { $0.suffix(8) }).count == sessions.count)
    // Other random bytes are drawn as ever.
    #expect(random.bytes(16).prefix(6) != random.bytes(16).prefix(6))
  }

  @Test("G5: a subject's storage namespace is safe on file systems that ignore case")
  func storageNamespace() throws {
    let id = try #require(SubjectID(bytes: (0..<16).map { UInt8($0 + 240) }, in: .first))
    #expect(id.storageNamespace == "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
  }

  @Test("R2: a secret never prints itself")
  func redaction() {
    let secret = RedactedSecret("correct horse")
    #expect("\(secret)" == "[redacted]")
    #expect(String(reflecting: secret) == "[redacted]")
    #expect(String(describing: Optional(secret)).contains("horse") == false)
    var dumped = ""
    dump(secret, to: &dumped)
    #expect(!dumped.contains("horse") && !dumped.contains("99"))
  }

  @Test("R3: secrets compare by content, whatever their length")
  func secretEquality() {
    #expect(RedactedSecret([1, 2, 3]) == RedactedSecret([1, 2, 3]))
    #expect(RedactedSecret([1, 2, 3]) != RedactedSecret([1, 2, 4]))
    #expect(RedactedSecret([1, 2, 3]) != RedactedSecret([1, 2]))
  }

  @Test("A client id is a short lower-case name", arguments: ["latchkey-cli", "app.ios_2", "a"])
  func clientID(text: String) {
    #expect(ClientID(text)?.description == text)
  }

  @Test(
    "What is no client id is refused",
    arguments: ["", "App", "-app", "a b", "a\0b", "ä", String(repeating: "a", count: 65)])
  func notClientID(text: String) {
    #expect(ClientID(text) == nil)
  }

  @Test("Scopes are sets: order and repeats do not matter")
  func scopes() throws {
    let scope = try #require(Scope("profile basic basic"))
    #expect(scope == Scope("basic profile"))
    #expect(scope.description == "profile basic")
    #expect(scope.isSubset(of: .account))
    #expect(!Scope.account.isSubset(of: scope))
    #expect(Scope.account.intersection(scope) == scope)
    #expect(Scope("") == .empty)
    #expect(Scope("a\"b") == nil)
    #expect(Scope("a\\b") == nil)
    #expect(Scope(String(repeating: "a", count: 513)) == nil)
  }

  @Test(
    "A display text is one honest line",
    arguments: ["Ada's phone", "Küche 📺", "👩‍💻", "❤️", "Phở", "שָׁלוֹם", "ཀྵྲུྃ"])
  func displayText(text: String) {
    #expect(DisplayText(text)?.description == text)
  }

  @Test("Of ASCII only what controls something is in no display text, and a letter ends a heap of marks")
  func displayTextOfASCII() {
    for scalar in (0..<128).map({ Unicode.Scalar(UInt8($0)) }) {
      let isControl = scalar.properties.generalCategory == .control
      #expect((DisplayText("a\(scalar)b") == nil) == isControl, "\(scalar.value)")
    }
    let marks = String(repeating: "\u{301}", count: DisplayText.maximumMarks)
    #expect(DisplayText("a\(marks)a\(marks)") != nil)
    #expect(DisplayText("a\(marks)\(marks)") == nil)
  }

  @Test(
    "Text that could pretend to be more is no display text",
    arguments: [
      "", " a", "a ", "a\nb", "a\u{202E}b", "a\u{0}b", "a\u{200B}b", "\u{3164}", "a\u{2800}b",
      "a\u{34F}b", "\u{115F}\u{1160}", "\u{FFA0}", "a\u{61C}b", "a\u{AD}b", "a\u{E0041}b",
      "Z" + String(repeating: "\u{301}", count: 6), "a\u{FFFC}b", "a\u{200D}b", "pay\u{FE0F}", "\u{200D}👩", "👩\u{200D}",
      "👩\u{200D}a", "\u{FE0F}❤",
    ])
  func notDisplayText(text: String) {
    #expect(DisplayText(text) == nil)
  }
}
