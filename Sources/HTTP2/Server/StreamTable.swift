/// The open streams of a session by their number.
///
/// Numbers of concurrent streams lie close together, so that their lower bits are as good as a hash; a peer that chooses
/// them otherwise makes a search longer by the streams that it may have open, and no more.
struct StreamTable {
  private var slots: [HTTP2Stream?] = Array(repeating: nil, count: 8)
  private(set) var count = 0
  /// Streams that are not at their home, since another was there. As long as there are none, which is what ordinary
  /// clients see to, nothing has to be moved when a stream goes.
  private var displaced = 0

  private func home(_ id: Int32) -> Int { Int(id >> 1) & (slots.count - 1) }

  subscript(id: Int32) -> HTTP2Stream? {
    var place = home(id)
    while let stream = slots[place] {
      if stream.id == id { return stream }
      place = (place + 1) & (slots.count - 1)
    }
    return nil
  }

  /// Adds a stream whose number is not in the table.
  mutating func insert(_ stream: HTTP2Stream) {
    if (count + 1) * 2 > slots.count { grow() }
    count += 1
    place(stream)
  }

  mutating func remove(_ stream: HTTP2Stream) {
    var hole = home(stream.id)
    while let found = slots[hole], found !== stream { hole = (hole + 1) & (slots.count - 1) }
    guard slots[hole] != nil else { return }
    count -= 1
    if displaced == 0 {
      slots[hole] = nil
      return
    }
    if hole != home(stream.id) { displaced -= 1 }
    // Moves later streams of the run into the hole wherever a search for them would pass it.
    var place = (hole + 1) & (slots.count - 1)
    while let later = slots[place] {
      let home = home(later.id)
      if (place - home) & (slots.count - 1) >= (place - hole) & (slots.count - 1) {
        slots[hole] = later
        if hole == home { displaced -= 1 }
        hole = place
      }
      place = (place + 1) & (slots.count - 1)
    }
    slots[hole] = nil
  }

  /// Every stream, for work that is rare.
  var all: [HTTP2Stream] { slots.compactMap { $0 } }

  mutating func removeAll() {
    slots = Array(repeating: nil, count: 8)
    count = 0
    displaced = 0
  }

  private mutating func place(_ stream: HTTP2Stream) {
    let home = home(stream.id)
    var place = home
    while slots[place] != nil { place = (place + 1) & (slots.count - 1) }
    slots[place] = stream
    if place != home { displaced += 1 }
  }

  private mutating func grow() {
    let streams = all
    slots = Array(repeating: nil, count: slots.count * 2)
    displaced = 0
    for stream in streams { place(stream) }
  }
}
