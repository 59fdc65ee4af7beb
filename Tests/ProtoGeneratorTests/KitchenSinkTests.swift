internal import GRPC
internal import NIOCore
import Testing

/// Runs the golden Swift files, which are part of these tests, against bytes that Python's protobuf wrote
/// (`make_vectors.py`).
@Suite("Generated code")
struct KitchenSinkTests {
  static let all = KitchenV1.KitchenSink(
    aDouble: -1.5,
    aFloat: 0.25,
    anInt32: -2,
    anInt64: .min,
    aUint32: .max,
    aUint64: .max,
    aSint32: .min,
    aSint64: -3,
    aFixed32: 4,
    aFixed64: 1 << 40,
    aSfixed32: -5,
    aSfixed64: -6,
    aBool: true,
    aString: "☃",
    someBytes: [0, 1],
    aMessage: SharedV1.Shared(text: "t"),
    anEnum: .high,
    aSigned: .alsoMinus,
    doubles: [0.5, -0.5],
    floats: [1],
    int32s: [1, -1],
    sint64s: [-(1 << 62)],
    fixed64s: [7],
    bools: [true, false],
    strings: ["", "s"],
    byteses: [[], [0xff]],
    messages: [.init(mode: .fast), .init(innermost: .init(text: "i"))],
    enums: [.minus, .n2g, .unrecognized(5)],
    unpacked: [8, 9]
  )

  static let sinkHex =
    "09000000000000f8bf150000803e18feffffffffffffffff01208080808080808080800128ffffffff0f30ffffffffffffffff"
    + "ff0138ffffffff0f40054d040000005100000000000100005dfbffffff61faffffffffffffff68017203e298837a0200018201"
    + "030a01748801019001ffffffffffffffffff01aa0110000000000000e03f000000000000e0bfb201040000803fba010b01ffff"
    + "ffffffffffffff01c20109ffffffffffffffff7fca01080700000000000000d201020100da0100da010173e20100e20101ffea"
    + "01020801ea010512030a0169f2010cffffffffffffffffff010205f80108f80109"

  func decode(_ hex: String) throws -> KitchenV1.KitchenSink {
    let digits = Array(hex.utf8)
    let bytes = stride(from: 0, to: digits.count - 1, by: 2).map { index in
      UInt8(String(decoding: digits[index...index + 1], as: UTF8.self), radix: 16) ?? 0
    }
    return try KitchenV1.KitchenSink(decoding: ByteBuffer(bytes: bytes))
  }

  func encode(_ message: some RPCMessage) throws -> String {
    var buffer = ByteBuffer()
    try message.encode(into: &buffer)
    return buffer.readableBytesView.map { byte in
      (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }.joined()
  }

  @Test("every scalar type, repeated and alone, reads as another implementation wrote it")
  func read() throws {
    #expect(try decode(Self.sinkHex) == Self.all)
  }

  @Test(
    "a bool of another wire type is refused, wherever in the message it is; in a list it may be packed or not",
    arguments: [
      ("6a0101", false), ("6d01000000", false), ("690100000000000000", false), ("6801", true),
      ("d2010101", true), ("d00101", true), ("d50101000000", false),
    ])
  func booleans(hex: String, isSound: Bool) throws {
    let message = try? decode(hex)
    #expect((message != nil) == isSound)
    if let message { #expect(message.aBool || message.bools == [true]) }
  }

  @Test("every scalar type, repeated and alone, is written as another implementation writes it")
  func write() throws {
    #expect(try encode(Self.all) == Self.sinkHex)
  }

  @Test(
    "a oneof keeps which member was set, also one that is zero or empty",
    arguments: [
      (.number(0), "c80200"), (.text("x"), "d2020178"), (.raw([]), "da0200"), (.flag(false), "e00200"),
      (.mode(.fast), "f00201"), (.precise(0), "f9020000000000000000"), (.inner(.init()), "ea0200"),
    ] as [(KitchenV1.KitchenSink.Choice, String)])
  func oneof(choice: KitchenV1.KitchenSink.Choice, hex: String) throws {
    #expect(try decode(hex).choice == choice)
    #expect(try encode(KitchenV1.KitchenSink(choice: choice)) == hex)
  }

  @Test("of two members of a oneof the last one counts")
  func lastOneof() throws {
    #expect(try decode("c80205" + "d2020178").choice == .text("x"))
    #expect(try decode("d2020178" + "c80205").choice == .number(5))
    #expect(try decode("d2020178" + "ea020208" + "01").choice == .inner(.init(mode: .fast)))
  }

  @Test("names that C or Swift reserve work like any other")
  func awkward() throws {
    let message = KitchenV1.Awkward(
      default: "a", register: "b", class: "c", init: "d", where: "e", in: "f", upperCase: "g", deviceID: "h",
      avatarURL: "i", x: "j", switch: .let("k"), protocol: .`init`)
    var buffer = ByteBuffer()
    try message.encode(into: &buffer)
    #expect(try KitchenV1.Awkward(decoding: buffer) == message)
  }

  @Test("a method knows its path and its kind")
  func methods() {
    #expect(KitchenV1.EveryKindMethod.allCases.count == 5)
    #expect(KitchenV1.EveryKindMethod.both.rpc.path == "/golden.kitchen.v1.EveryKind/Both")
    #expect(
      KitchenV1.EveryKindMethod.allCases.map(\.rpc.kind)
        == [.unary, .serverStreaming, .clientStreaming, .bidirectional, .unary])
  }
}

@Suite("Messages read in place")
struct BorrowedTests {
  static let flat = KitchenV1.Flat(text: "☃", raw: [1, 2], signedNumber: -3, number: 300, flag: true)

  func bytes(_ message: some RPCMessage) throws -> [UInt8] {
    var buffer = ByteBuffer()
    try message.encode(into: &buffer)
    return Array(buffer.readableBytesView)
  }

  func borrow(_ bytes: [UInt8]) -> KitchenV1.Flat.Borrowed? {
    KitchenV1.Flat.Borrowed(bytes.span)
  }

  @Test("a message read in place has the fields that protobuf-c finds")
  func same() throws {
    let bytes = try bytes(Self.flat)
    let borrowed = try #require(borrow(bytes))
    #expect(Array(bytes[borrowed.text]) == Array("☃".utf8))
    #expect(Array(bytes[borrowed.raw]) == [1, 2])
    #expect(borrowed.signedNumber == -3)
    #expect(borrowed.number == 300)
    #expect(borrowed.flag)
    #expect(borrow([])?.text.isEmpty == true)
  }

  @Test("what protobuf-c refuses is refused in place, wherever the message is cut; so are fields that are not known")
  func refused() throws {
    let bytes = try bytes(Self.flat)
    for count in 1..<bytes.count {
      let cut = Array(bytes[..<count])
      let reads = (try? KitchenV1.Flat(decoding: ByteBuffer(bytes: cut))) != nil
      #expect((borrow(cut) != nil) == reads, "\(count)")
    }
    for other in [[0x3a, 0], [0x08, 1], [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], [UInt8](repeating: 0xff, count: 11)] {
      #expect(borrow(bytes + other) == nil)
    }
  }
}
