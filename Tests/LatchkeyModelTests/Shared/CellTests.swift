import LatchkeyModel
import Synchronization
import TestSupport
import Testing

@Suite("Cells")
struct CellTests {
  /// Texts of everything that a cell gives out, by what it is.
  private static func texts(_ random: RandomSource) -> [String: String] {
    let session = QRSessionID(instance: 7, from: random)
    let position = MigrationPosition(createdAt: Timestamp(millisecondsSinceEpoch: 5), id: MigrationID(from: random))
    return [
      "subject": SubjectID(from: random).description, "session": SessionID(from: random).description,
      "device code": PollSecret(from: random).text, "reference": QRReference(from: random).text,
      "ticket": ConfirmTicket(session: session, secret: random.bytes(32), in: random.cell).text,
      "user code": UserCode(random: random).text, "transfer code": TransferCode(random: random).text,
      "page": position.pageToken,
    ]
  }

  /// The cell that each text is read as; nil for what is not read.
  private static func read(_ kind: String, _ text: String) -> Cell? {
    switch kind {
    case "subject": SubjectID(text)?.cell
    case "session": SessionID(text)?.cell
    case "device code": PollSecret(text: text)?.cell
    case "reference": QRReference(text: text)?.cell
    case "ticket": ConfirmTicket(text: text)?.cell
    case "user code": UserCode(typed: text)?.cell
    case "transfer code": TransferCode(typed: text)?.cell
    default: MigrationPosition(pageToken: text)?.id.cell
    }
  }

  @Test("C16: whatever a cell gives out names it, and reads back as that cell's and no other's")
  func everythingNamesItsCell() throws {
    let seed = SeededRandom.seed()
    let chance = Mutex(SeededRandom(seed: seed))
    let others = chance.withLock { chance in (0..<200).map { _ in UInt16(truncatingIfNeeded: chance.next()) } }
    for number in [0, 1, 9, 10, 255, 256, 65_535] + others {
      let cell = Cell(number)
      let random = RandomSource(in: cell) { count in chance.withLock { $0.bytes(count) } }
      for source in [random, random.withNeighbouringIdentifiers()] {
        for (kind, text) in Self.texts(source) {
          #expect(Self.read(kind, text) == cell, "seed \(seed): \(kind) \(text) of cell \(cell)")
          let isNamed = text.first?.isNumber == true && text.contains { $0 == "." || $0 == "-" }
          #expect(cell == .first || isNamed, "seed \(seed): \(kind) \(text)")
        }
      }
    }
  }

  @Test("C16: an id of before there were cells is of cell 0, whatever its bytes are")
  func oldIDs() throws {
    let seed = SeededRandom.seed()
    var chance = SeededRandom(seed: seed)
    for first in 0...255 {
      for second in [0, 1, 46, 255] {
        let bytes = [UInt8(first), UInt8(second)] + chance.bytes(14)
        let text = Base64URL.encode(bytes)
        let id = try #require(SubjectID(text), "seed \(seed): \(text)")
        #expect(id.cell == .first && id.bytes == bytes && id.description == text)
        #expect(SubjectID(bytes: bytes, in: .first) == id)
        let code = Base64URL.encode(bytes + chance.bytes(16))
        #expect(PollSecret(text: code)?.cell == .first)
      }
    }
    // What a session of 0.1.0 begins with was its instance.
    let old = Base64URL.encode([0, 7] + chance.bytes(46))
    #expect(ConfirmTicket(text: old)?.cell == .first)
  }

  @Test("C16: an id of another cell begins with the cell's number wherever it is stored, and only there is it one")
  func bytes() throws {
    let cell = Cell(0x0305)
    let id = SubjectID(from: RandomSource(in: cell) { [UInt8](repeating: 0xF9, count: $0) })
    #expect(id.bytes == [3, 5] + [UInt8](repeating: 0xF9, count: 14))
    #expect(id.description == "773.-fn5-fn5-fn5-fn5-fk")
    #expect(SubjectID(bytes: id.bytes, in: cell) == id)
    #expect(SubjectID(bytes: id.bytes, in: Cell(0x0306)) == nil)
    // The same bytes are another subject in cell 0: neither is taken for the other.
    let other = try #require(SubjectID(bytes: id.bytes, in: .first))
    #expect(other != id && other.cell == .first && SubjectID(other.description) == other)
  }

  @Test(
    "C16: a number has one form, and what has another is no id",
    arguments: ["0.", "00.", "03.", "+3.", "-3.", "3..", ".", "65536.", "99999.", "100000.", "\u{0663}.", " 3.", "3 ."])
  func oneForm(prefix: String) throws {
    let rest = SubjectID(from: RandomSource(in: Cell(3)) { [UInt8](repeating: 1, count: $0) }).description.dropFirst(2)
    #expect(SubjectID("3." + rest) != nil)
    #expect(SubjectID(prefix + rest) == nil)
    #expect(SubjectID(prefix + Base64URL.encode([UInt8](repeating: 1, count: 16))) == nil)
    #expect(PollSecret(text: prefix + Base64URL.encode([UInt8](repeating: 1, count: 32))) == nil)
  }

  @Test(
    "C16: a person types a cell's number before the letters, with hyphens and spaces wherever they like",
    arguments: [("3-BCDF-GHJK", 3), ("3bcdfghjk", 3), ("6 5535 BCDF GHJK", 65_535), ("BCDF-GHJK", 0)])
  func typed(text: String, number: UInt16) throws {
    let code = try #require(UserCode(typed: text))
    #expect(code.cell == Cell(number) && code.letters == Array("BCDFGHJK".utf8))
    #expect(UserCode(typed: code.text)?.cell == code.cell)
  }

  @Test(
    "C16: a number that is none, or stands elsewhere, makes no code",
    arguments: ["0-BCDF-GHJK", "03-BCDF-GHJK", "65536-BCDF-GHJK", "BCDF-3-GHJK", "BCDF-GHJK-3", "3-BCDF-GHJ", "3"])
  func mistyped(text: String) {
    #expect(UserCode(typed: text) == nil)
  }
}
