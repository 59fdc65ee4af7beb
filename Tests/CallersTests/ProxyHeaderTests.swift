import TestSupport
import Testing

@testable import Callers

@Suite("The PROXY protocol's header")
struct ProxyHeaderTests {
  private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10] + Array("QUIT\n".utf8)

  private static func binary(_ command: UInt8, _ family: UInt8, _ body: [UInt8]) -> [UInt8] {
    signature + [command, family, UInt8(body.count >> 8), UInt8(body.count & 255)] + body
  }

  private static let four: [UInt8] = [203, 0, 113, 7, 192, 0, 2, 1, 0x12, 0x34, 0x01, 0xBB]
  private static let six: [UInt8] =
    [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7] + [UInt8](repeating: 0, count: 16) + [0, 80, 1, 187]

  private static func client(_ text: String, _ port: Int) throws -> ProxyHeader.Client {
    ProxyHeader.Client(address: try #require(NetworkAddress(text)), port: port)
  }

  @Test("R53: both versions name the client, and what follows the header is left alone")
  func clients() throws {
    let headers: [([UInt8], ProxyHeader.Client?)] = [
      (Array("PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\r\n".utf8), try Self.client("203.0.113.7", 4660)),
      (Array("PROXY TCP6 2001:db8::7 2001:db8::1 80 443\r\n".utf8), try Self.client("2001:db8::7", 80)),
      (Array("PROXY UNKNOWN\r\n".utf8), nil), (Array("PROXY UNKNOWN ff::1 whatever 1\r\n".utf8), nil),
      (Self.binary(0x21, 0x11, Self.four), try Self.client("203.0.113.7", 4660)),
      (Self.binary(0x21, 0x21, Self.six), try Self.client("2001:db8::7", 80)),
      (Self.binary(0x20, 0x11, Self.four), nil), (Self.binary(0x20, 0x00, []), nil),
      (Self.binary(0x21, 0x00, [1, 2, 3]), nil), (Self.binary(0x21, 0x31, [UInt8](repeating: 47, count: 216)), nil),
      (Self.binary(0x21, 0x11, Self.four + [4, 0, 2, 9, 9, 5, 0, 0]), try Self.client("203.0.113.7", 4660)),
    ]
    for (header, client) in headers {
      for rest in ["", "PRI * HTTP/2.0", "\u{16}\u{03}"] {
        let expected = ProxyHeader.present(byteCount: header.count, client: client)
        #expect(ProxyHeader.parse(header + Array(rest.utf8)) == expected)
      }
      for count in 0..<header.count { #expect(ProxyHeader.parse(Array(header[..<count])) == .incomplete) }
    }
  }

  @Test("What is no header is nobody's: TLS, HTTP/2, HTTP/1.1 and empty lines")
  func absent() {
    let starts = [[0x16, 3, 1, 2, 0], Array("PRI * HTTP/2.0".utf8), Array("POST / HTTP/1.1".utf8), [13, 10, 71], [0]]
    for bytes in starts { #expect(ProxyHeader.parse(bytes) == .absent) }
  }

  @Test(
    "R53: a header that is not exactly one is refused",
    arguments: [
      "PROXY TCP4 203.0.113.7 192.0.2.1 4660\r\n", "PROXY TCP4 203.0.113.7 192.0.2.1 4660 443 1\r\n",
      "PROXY TCP4  203.0.113.7 192.0.2.1 4660 443\r\n", "PROXY TCP4 203.0.113.7 192.0.2.1 65536 443\r\n",
      "PROXY TCP4 203.0.113.7 192.0.2.1 04660 443\r\n", "PROXY TCP4 203.0.113.7 192.0.2.1 +1 443\r\n",
      "PROXY TCP4 203.0.113.7 192.0.2.1 1 443\n", "PROXY TCP4 203.0.113.7 192.0.2.1 1 443\r\r\n",
      "PROXY TCP4 ::1 192.0.2.1 1 443\r\n", "PROXY TCP6 203.0.113.7 2001:db8::1 1 443\r\n",
      "PROXY TCP4 203.0.113.7 nonsense 1 443\r\n", "PROXY UDP4 203.0.113.7 192.0.2.1 1 443\r\n", "PROXY \r\n",
      "PROXY TCP4 203.0.113.256 192.0.2.1 1 443\r\n", "PROXY UNKNOWN" + String(repeating: "x", count: 95) + "\r\n",
      "PROXY " + String(repeating: "x", count: 101),
    ])
  func malformedText(header: String) {
    #expect(ProxyHeader.parse(Array(header.utf8)) == .malformed)
  }

  @Test("R53: version 2 with a length, a family, a command or an extension that cannot be is refused")
  func malformedBinary() {
    let headers = [
      Self.binary(0x11, 0x11, Self.four), Self.binary(0x22, 0x11, Self.four), Self.binary(0x21, 0x12, Self.four),
      Self.binary(0x21, 0x11, Array(Self.four.dropLast())), Self.binary(0x21, 0x21, Array(Self.six.dropLast())),
      Self.binary(0x21, 0x31, Self.six), Self.binary(0x21, 0x41, Self.four),
      Self.binary(0x21, 0x11, Self.four + [4]), Self.binary(0x21, 0x11, Self.four + [4, 0, 2, 9]),
      Self.binary(0x21, 0x11, [UInt8](repeating: 0, count: 2033)),
    ]
    for header in headers { #expect(ProxyHeader.parse(header) == .malformed) }
  }

  @Test("R53: a checksum in the header has to be right")
  func checksum() throws {
    // CRC32c of the header with zeros in the checksum's place, worked out apart from this code.
    let right = Self.binary(0x21, 0x11, Self.four + [3, 0, 4] + Self.knownSum)
    #expect(ProxyHeader.parse(right) == .present(byteCount: right.count, client: try Self.client("203.0.113.7", 4660)))
    // But for the extension's type, which would make it another one.
    for index in 12..<right.count where index != 28 {
      var wrong = right
      wrong[index] ^= 0x10
      if case .present(_, .some) = ProxyHeader.parse(wrong) { Issue.record("byte \(index) may change") }
    }
  }

  private static let knownSum: [UInt8] = [0x0E, 0xE7, 0xC7, 0x17]

  @Test("Any bytes are read without harm, and a header is never longer than what came")
  func anyBytes() {
    let seed = SeededRandom.seed()
    var random = SeededRandom(seed: seed)
    for _ in 0..<20_000 {
      let start =
        [Self.signature, Self.signature + [0x21, 0x11, 0], Array("PROXY ".utf8), Array("PROXY TCP4 ".utf8), []]
        .randomElement(using: &random) ?? []
      let bytes = start + random.bytes(Int.random(in: 0...60, using: &random))
      if case .present(let count, _) = ProxyHeader.parse(bytes) { #expect(count <= bytes.count, "seed \(seed)") }
    }
  }
}
