import CProtobufC
import Testing

@testable import Protobuf

@Suite("Fields")
struct FieldTests {
  @Test(
    "text goes into the arena and out again",
    arguments: ["", "a", "a\u{0}b", "☃😀", String(repeating: "x", count: 9999)])
  func strings(text: String) throws {
    let back = try Arena.withCurrent(cap: 1 << 16) { arena throws(ProtobufError) in
      // The arena is in use until the closure returns.
      let data = unsafe try arena.string(text)
      return unsafe try FieldReader.string(data, "field")
    }
    #expect(back == text)
  }

  @Test("bytes go into the arena and out again", arguments: [[], [0], [0, 255, 0]] as [[UInt8]])
  func bytes(value: [UInt8]) throws {
    let back = try Arena.withCurrent(cap: 1 << 16) { arena throws(ProtobufError) in
      // The arena is in use until the closure returns.
      unsafe FieldReader.bytes(try arena.bytes(value))
    }
    #expect(back == value)
  }

  @Test("nothing is allocated for what is empty")
  func empty() throws {
    // A cap of nothing: any allocation would be refused.
    try Arena.withCurrent(cap: 0) { arena throws(ProtobufError) in
      _ = unsafe try arena.string("")
      _ = unsafe try arena.bytes([])
      _ = unsafe try arena.list([Int32]()) { $0 }
    }
  }

  @Test("a path grows from the inside out")
  func path() {
    let error = ProtobufError.invalidUTF8(field: "x").within("public_key").within("device")
    #expect(error == .invalidUTF8(field: "device.public_key.x"))
    #expect(ProtobufError.malformed.within("device") == .malformed)
  }
}
