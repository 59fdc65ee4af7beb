import TestSupport
import Testing

@testable import HTTP2

@Suite struct StreamTableTests {
  private func stream(_ id: Int32) -> HTTP2Stream {
    let stream = HTTP2Stream()
    stream.id = id
    return stream
  }

  @Test("The table holds what a dictionary does, whatever numbers a peer chooses", arguments: UInt64(0)..<30)
  func likeADictionary(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = StreamTable()
    var model: [Int32: HTTP2Stream] = [:]
    // Numbers that follow each other, that share a home, and any.
    let numbers: [Int32] = (Int32(0)..<200).map { index in
      switch seed % 3 {
      case 0: index * 2 + 1
      case 1: index * 512 + 1
      default: Int32(truncatingIfNeeded: random.next() & 0x3ff) | 1
      }
    }
    for _ in 0..<5000 {
      let id = numbers[Int(random.next() % UInt64(numbers.count))]
      if let known = model[id] {
        table.remove(known)
        model[id] = nil
      } else if model.count < 100 {
        let added = stream(id)
        table.insert(added)
        model[id] = added
      }
      let asked = numbers[Int(random.next() % UInt64(numbers.count))]
      #expect(table[asked] === model[asked])
      #expect(table.count == model.count)
    }
    #expect(Set(table.all.map(\.id)) == Set(model.keys))
    table.removeAll()
    #expect(table.count == 0 && table.all.isEmpty)
  }
}
