import NIOCore
import TestSupport
import Testing

@testable import HTTP2

@Suite("Header strings of over 64 KiB, which nghttp2 decodes no further")
struct LongStringsTests {
  /// A literal field (RFC 7541 §6.2) whose first byte is `kind`, with its name written out.
  private func literal(_ kind: UInt8, _ name: [UInt8], _ value: [UInt8], isHuffman: Bool = false) -> [UInt8] {
    [kind] + string(name, isHuffman) + string(value, isHuffman)
  }

  private func string(_ bytes: [UInt8], _ isHuffman: Bool = false) -> [UInt8] {
    let mark: UInt8 = isHuffman ? 0x80 : 0
    guard bytes.count >= 127 else { return [mark | UInt8(bytes.count)] + bytes }
    return [mark | 0x7f] + number(bytes.count - 127) + bytes
  }

  /// RFC 7541 §5.1, after the first byte.
  private func number(_ value: Int) -> [UInt8] {
    value < 128 ? [UInt8(value)] : [UInt8(value & 127) | 0x80] + number(value >> 7)
  }

  /// A request whose block is cut where `cuts` says, and every 16 KiB besides.
  private func send(_ block: [UInt8], stream: Int32, to peer: ScriptedPeer, cuts: [Int] = []) {
    var ends = cuts
    var start = cuts.last ?? 0
    while block.count - start > 16_384 {
      start += 16_384
      ends.append(start)
    }
    ends.append(block.count)
    var begin = 0
    for (index, end) in ends.enumerated() {
      let flags = end == block.count ? FrameFlag.endHeaders : 0
      let piece = Array(block[begin..<end])
      if index == 0 {
        peer.send(.headers, flags: flags | FrameFlag.endStream, stream: stream, piece)
      } else {
        peer.send(.continuation, flags: flags, stream: stream, piece)
      }
      begin = end
    }
  }

  private func many(_ count: Int) -> [UInt8] { [UInt8](repeating: 0x62, count: count) }

  private let usual = ScriptedPeer.block(ScriptedPeer.usual)

  /// What the server refuses the stream for.
  private func refusal(of stream: Int32, _ peer: ScriptedPeer) -> HTTP2ErrorCode? {
    peer.received().first { $0.type == FrameType.reset.rawValue && $0.stream == stream }?.code
  }

  // Without indexing, never indexed, added to the table.
  @Test(
    "RFC 7541 §4.4: one costs its request and nothing else, and leaves the table as it would have been",
    arguments: [0x00, 0x10, 0x40] as [UInt8], [false, true])
  func table(kind: UInt8, isHuffman: Bool) throws {
    // In Huffman's code `a` is 00011, so that eight times `a` are five bytes.
    let long = isHuffman ? (0..<13_108).flatMap { _ in [0x18, 0xc6, 0x31, 0x8c, 0x63] as [UInt8] } : many(65_537)
    for isName in [false, true] {
      let peer = try ScriptedPeer()
      send(usual + literal(0x40, Array("x".utf8), Array("y".utf8)), stream: 1, to: peer)
      // The code of `a`, and the shortest of its endings: 00011 111.
      let short: [UInt8] = isHuffman ? [0x1f] : [0x61]
      let field = literal(kind, isName ? long : short, isName ? short : long, isHuffman: isHuffman)
      send(usual + field + literal(0, Array("b".utf8), Array("c".utf8)), stream: 3, to: peer)
      #expect(refusal(of: 3, peer) == .enhanceYourCalm)
      #expect(peer.server.failure == nil && peer.events.opened.map(\.stream.id) == [1])
      if kind == 0x40 {
        // The table is empty, and works.
        send(usual + literal(0x40, Array("n".utf8), Array("w".utf8)), stream: 5, to: peer)
        send(usual + [0x80 | 62], stream: 7, to: peer)
        #expect(peer.events.opened.last?.handler.fields.last == "n: w")
        send(usual + [0x80 | 63], stream: 9, to: peer)
        #expect(peer.server.failure == .compressionError)
      } else {
        send(usual + [0x80 | 62], stream: 5, to: peer)
        #expect(peer.events.opened.last?.handler.fields.last == "x: y")
        #expect(peer.server.failure == nil)
      }
    }
  }

  @Test("One of exactly 64 KiB is decoded, one of a byte more is not, wherever the frames are cut")
  func boundary() throws {
    for count in [65_536, 65_537] {
      let before = usual + [0x40, 1, 0x61]
      let block = before + string(many(count))
      for first in before.count - 3...before.count + 6 {
        let peer = try ScriptedPeer()
        send(block, stream: 1, to: peer, cuts: [first, first + 1])
        #expect(refusal(of: 1, peer) == .enhanceYourCalm)
        send(usual, stream: 3, to: peer)
        #expect(peer.server.failure == nil && peer.events.opened.map(\.stream.id) == [3])
      }
    }
  }

  @Test("A block means the same wherever its frames are cut")
  func cuts() throws {
    // Two sizes of the table, an indexed field, strings of every kind, and numbers of several bytes.
    let fields =
      [0x20, 0x3f, 0xe1, 0x1f] + usual + [0x80 | 0x10] + literal(0x40, Array("x".utf8), Array("y".utf8)) + [0x80 | 62]
      + literal(0x10, [UInt8](repeating: 0x6e, count: 130), [UInt8](repeating: 0x76, count: 400))
      + [0x7e, 0x81, 0x1f] + [0x0f, 0x2f] + string([0x1f], true) + literal(0, Array("e".utf8), [])
      // A length of 127 with zeroes before it, as far as they may go.
      + [0x00, 1, 0x70, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x00] + many(127)
    var expected: [String]?
    for first in 0...fields.count {
      for second in Set([first, min(first + 1, fields.count), fields.count]).sorted() {
        let peer = try ScriptedPeer()
        let cuts = [first, second].filter { $0 < fields.count }
        send(fields, stream: 1, to: peer, cuts: cuts)
        #expect(peer.server.failure == nil)
        let opened = try #require(peer.events.opened.first?.handler.fields)
        #expect(opened == expected ?? opened)
        expected = opened
      }
    }
    #expect(expected?.suffix(2) == ["e: ", "p: \(String(repeating: "b", count: 127))"])
  }

  @Test("RFC 7541 §5.1, §5.2: a block that ends within a number or a string, or has too large a number, is none")
  func malformed() throws {
    let long = usual + [0x40, 1, 0x61] + string(many(70_000))
    let blocks: [[UInt8]] = [
      Array(long.dropLast()), usual + [0x40, 1, 0x61, 0x7f, 0xff], usual + [0x40, 1], usual + [0x40],
      usual + [0x40, 1, 0x61, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x62],
      usual + [0x40, 1, 0x61, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x62],
      usual + [0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    ]
    for block in blocks {
      let peer = try ScriptedPeer()
      send(block, stream: 1, to: peer, cuts: [usual.count])
      #expect(peer.server.failure == .compressionError)
      #expect(peer.events.opened.isEmpty)
    }
  }

  @Test("As trailers one costs its stream, and on a stream that is none any more, nothing")
  func trailers() throws {
    let peer = try ScriptedPeer()
    let long = literal(0x40, Array("a".utf8), many(70_000))
    peer.request(1, end: false)
    send(long, stream: 1, to: peer)
    #expect(refusal(of: 1, peer) == .enhanceYourCalm)
    send(long, stream: 1, to: peer)
    peer.request(3)
    #expect(peer.server.failure == nil && peer.events.opened.last?.stream.id == 3)
  }

  @Test("Whatever nghttp2 decodes goes through unchanged, wherever it is cut")
  func others() throws {
    var random = SeededRandom(seed: 7)
    let firsts: [UInt8] = [0x00, 0x0f, 0x10, 0x1f, 0x20, 0x3f, 0x40, 0x7f, 0x82, 0xbe, 0xff, 0x01, 0x03, 0x61]
    var decoded = 0
    for _ in 0..<40_000 {
      let block = (0..<Int.random(in: 1...12, using: &random)).map { _ in
        Bool.random(using: &random) ? firsts.randomElement(using: &random)! : UInt8.random(in: 0...255, using: &random)
      }
      var decoder = try HeaderDecoder()
      let isBlock = unsafe block.withUnsafeBytes { unsafe decoder.decode($0, isLast: true) { _, _ in } }
      var strings = LongStrings()
      var kept: [UInt8]? = []
      var start = 0
      repeat {
        let end = Int.random(in: start...block.count, using: &random)
        let piece = unsafe block[start..<end].withUnsafeBytes { unsafe strings.without($0, isLast: end == block.count) }
        kept = piece.flatMap { piece in kept.map { $0 + piece } }
        start = end
      } while start < block.count
      if isBlock { decoded += 1 }
      #expect(kept == block || kept == nil && !isBlock, "\(block)")
      #expect(!strings.hasTakenOut || !isBlock)
    }
    #expect(decoded > 1000)
  }

  @Test("A field as large as the table stays in it, and a long one that nghttp2 takes goes through")
  func largeFields() throws {
    for cut in [usual.count, usual.count + 3, usual.count + 5, usual.count + 2000] {
      let peer = try ScriptedPeer()
      let fields = literal(0x40, [0x61], many(4000)) + literal(0, [0x63], many(10_000))
      send(usual + fields, stream: 1, to: peer, cuts: [cut])
      #expect(peer.events.opened.last?.handler.fields.last == "c: \(String(repeating: "b", count: 10_000))")
      send(usual + [0x80 | 62], stream: 3, to: peer)
      #expect(peer.events.opened.last?.handler.fields.last == "a: \(String(repeating: "b", count: 4000))")
    }
    var strings = LongStrings()
    let block = literal(0x40, [0x61], many(65_536))
    #expect(unsafe block.withUnsafeBytes { unsafe strings.without($0, isLast: true) } == block && !strings.hasTakenOut)
  }

  // A name of the table's with a long value, both long, two such fields, and a table that was made smaller before.
  @Test("The table is empty after a field that is too large for it, whatever its form", arguments: 0..<5)
  func forms(_ number: Int) throws {
    let long = [0x7e] + string(many(65_537))
    let blocks: [[UInt8]] = [
      usual + long,
      usual + [0x40] + string(many(65_537)) + string(many(65_537)),
      usual + long + [0x41] + string(many(65_537)),
      [0x3f, 0x21] + usual + long,
      usual + long + literal(0x40, [0x61], many(10)),
    ]
    let block = blocks[number]
    let peer = try ScriptedPeer()
    send(usual + literal(0x40, Array("x".utf8), Array("y".utf8)), stream: 1, to: peer)
    send(block, stream: 3, to: peer)
    #expect(refusal(of: 3, peer) == .enhanceYourCalm)
    #expect(peer.server.failure == nil)
    // What was added after it is the only one.
    if number == 4 { send(usual + [0x80 | 62], stream: 5, to: peer) }
    #expect(peer.server.failure == nil)
    send(usual + [0x80 | (number == 4 ? 63 : 62)], stream: 7, to: peer)
    #expect(peer.server.failure == .compressionError)
  }

  @Test(
    "A block that is remembered by its bytes is forgotten when one of several frames changes the table",
    arguments: [false, true])
  func remembered(isLong: Bool) throws {
    let peer = try ScriptedPeer()
    send(usual + literal(0x40, Array("x".utf8), Array("y".utf8)), stream: 1, to: peer)
    for stream: Int32 in [3, 5] { send(usual + [0x80 | 62], stream: stream, to: peer) }
    #expect(peer.events.opened.last?.handler.fields.last == "x: y")
    let field = literal(0x40, Array("n".utf8), isLong ? many(65_537) : [0x77])
    send(usual + field, stream: 7, to: peer, cuts: [usual.count])
    send(usual + [0x80 | 62], stream: 9, to: peer)
    if isLong {
      #expect(peer.server.failure == .compressionError)
    } else {
      #expect(peer.events.opened.last?.handler.fields.last == "n: w")
    }
  }

  @Test("Of a block that stands for more than is usual nothing is remembered", arguments: [300, 3900])
  func notRemembered(_ count: Int) throws {
    let peer = try ScriptedPeer()
    send(usual + literal(0x40, [0x61], many(count)), stream: 1, to: peer)
    for stream: Int32 in [3, 5, 7] { send(usual + [0x80 | 62, 0x80 | 62], stream: stream, to: peer) }
    #expect(peer.events.opened.count == 4 && peer.server.failure == nil)
    #expect(peer.events.blocks == (count == 300 ? 2 : 4))
  }

  @Test("What was taken out leaves the table as it is without that, for whatever blocks and cuts")
  func tables() throws {
    var random = SeededRandom(seed: 11)
    var taken = 0
    for _ in 0..<3000 {
      // A table of 128 bytes, so that what is longer than 200 is too large for it.
      var block: [UInt8] = [0x3f, 0x61]
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        let length = { Int.random(in: 0...1, using: &random) == 0 ? Int.random(in: 0...40, using: &random) : 201 }
        let kind = ([0x00, 0x10, 0x40] as [UInt8]).randomElement(using: &random) ?? 0
        let name = Bool.random(using: &random) ? [kind] + string(many(length())) : [kind | 4]
        block += name + string([UInt8](repeating: .random(in: 0x61...0x7a, using: &random), count: length()))
      }
      var plain = try HeaderDecoder()
      var filtered = try HeaderDecoder()
      func decode(_ block: [UInt8], _ isLast: Bool, _ decoder: inout HeaderDecoder) -> [String]? {
        var fields: [String] = []
        let isBlock = unsafe block.withUnsafeBytes {
          unsafe decoder.decode($0, isLast: isLast) { name, value in
            let (name, value) = unsafe (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
            fields.append("\(name): \(value)")
          }
        }
        return isBlock ? fields : nil
      }
      #expect(decode(block, true, &plain) != nil)
      var strings = LongStrings(longest: 200)
      var start = 0
      repeat {
        let end = Int.random(in: start...block.count, using: &random)
        let isLast = end == block.count
        let kept = unsafe block[start..<end].withUnsafeBytes { unsafe strings.without($0, isLast: isLast) }
        #expect(decode(try #require(kept), isLast, &filtered) != nil)
        start = end
      } while start < block.count
      if strings.hasTakenOut { taken += 1 }
      for place: UInt8 in 62..<67 {
        let (one, other) = (decode([0x80 | place], true, &plain), decode([0x80 | place], true, &filtered))
        #expect(one == other, "\(block)")
        if one == nil { break }
      }
    }
    #expect(taken > 1000)
  }

  @Test("What counts as held is what is held: a field of the table that comes again and again is not, half a string is")
  func held() throws {
    let limit = Int(Limits().headerListBytes)
    let peer = try ScriptedPeer()
    let field = literal(0x40, [0x6e], many(4000))
    peer.send(.headers, stream: 1, usual + field + [UInt8](repeating: 0x80 | 62, count: 12_000))
    for _ in 0..<7 { peer.send(.continuation, stream: 1, [UInt8](repeating: 0x80 | 62, count: 16_384)) }
    #expect(peer.server.partialBytes <= limit + 1 + field.count)
    peer.send(.continuation, flags: FrameFlag.endHeaders, stream: 1)
    #expect(refusal(of: 1, peer) == .enhanceYourCalm && peer.server.partialBytes == 0)
    let half = usual + literal(0, many(60_000), many(60_000))
    peer.send(.headers, stream: 3, Array(half[..<16_384]))
    for start in [16_384, 32_768, 49_152] { peer.send(.continuation, stream: 3, Array(half[start..<start + 16_384])) }
    #expect(peer.server.failure == nil && (65_000...66_500).contains(peer.server.partialBytes))
  }
}
