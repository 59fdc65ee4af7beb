/// Codes that people type: consonants only, so that they spell no word and no letter looks like a digit (RFC 8628
/// section 6.1). Each letter is worth 4.3 bits.
package enum ConsonantText {
  private static let alphabet = Array("BCDFGHJKLMNPQRSTVWXZ".utf8)
  private static let group = 4

  /// Draws letters from `random` without bias: bytes of 240 and more are thrown away, so that 20 divides what is left.
  package static func draw(_ count: Int, _ random: RandomSource) -> [UInt8] {
    var letters: [UInt8] = []
    while letters.count < count {
      for byte in random.bytes(count) where byte < 240 && letters.count < count {
        letters.append(alphabet[Int(byte) % alphabet.count])
      }
    }
    return letters
  }

  /// Groups of four with hyphens between them, behind the number of a cell that is not 0: no letter is a digit.
  package static func text(_ letters: [UInt8], in cell: Cell) -> String {
    let groups = stride(from: 0, to: letters.count, by: group)
      .map { String(decoding: letters[$0..<min($0 + group, letters.count)], as: UTF8.self) }
    return ((cell == .first ? [] : ["\(cell)"]) + groups).joined(separator: "-")
  }

  /// Reads what a person typed: any case, with hyphens and spaces wherever they like. Nil for anything but `length`
  /// letters, or a cell's number and these.
  package static func read(_ text: String, length: Int) -> (cell: Cell, letters: [UInt8])? {
    guard text.utf8.count <= 4 * length else { return nil }
    var letters: [UInt8] = []
    var number: [UInt8] = []
    for character in text.utf8 where character != UInt8(ascii: "-") && character != UInt8(ascii: " ") {
      if character.isASCIIDigit, letters.isEmpty {
        number.append(character)
        continue
      }
      let letter = (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(character) ? character - 32 : character
      guard alphabet.contains(letter), letters.count < length else { return nil }
      letters.append(letter)
    }
    guard letters.count == length else { return nil }
    guard let first = number.first else { return (.first, letters) }
    guard first != UInt8(ascii: "0"), let cell = UInt16(String(decoding: number, as: UTF8.self)) else { return nil }
    return (Cell(cell), letters)
  }
}
