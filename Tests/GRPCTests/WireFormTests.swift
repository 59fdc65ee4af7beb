import NIOCore
import Testing

@testable import GRPC

@Suite struct GRPCTimeoutTests {
  private func parse(_ text: String) -> Duration? {
    var text = text
    return text.withUTF8 { unsafe GRPCTimeout.parse(UnsafeRawBufferPointer($0)) }
  }

  @Test(
    "Each unit is understood",
    arguments: [
      ("1H", Duration.seconds(3600)), ("2M", .seconds(120)), ("3S", .seconds(3)), ("4m", .milliseconds(4)),
      ("5u", .microseconds(5)), ("6n", .nanoseconds(6)), ("0S", .zero), ("99999999H", .seconds(99_999_999 * 3600)),
    ]
  )
  func units(text: String, duration: Duration) {
    #expect(parse(text) == duration)
  }

  @Test(
    "Anything else is refused",
    arguments: ["", "S", "1", "1s", "1h", "-1S", "+1S", "1.5S", " 1S", "1S ", "123456789S"]
  )
  func malformed(text: String) {
    #expect(parse(text) == nil)
  }

  @Test("What is formatted parses to no more than was meant, and to most of it")
  func roundTrip() throws {
    for exponent in 0..<60 {
      let duration = Duration.nanoseconds(Int64(1) << exponent) + .nanoseconds(7)
      let parsed = try #require(parse(GRPCTimeout.format(duration)))
      #expect(parsed <= duration)
      #expect(parsed > duration * 0.98)
    }
    #expect(GRPCTimeout.format(.seconds(-3)) == "0n")
  }
}

@Suite struct PercentEncodingTests {
  @Test("Only printable ASCII without the percent sign goes as it is")
  func encode() {
    #expect(String(decoding: PercentEncoding.encode("a b~ %\n€"), as: UTF8.self) == "a b~ %25%0A%E2%82%AC")
  }

  @Test("Spaces at either end are encoded: no field's value has them", arguments: [" a b ", "  ", " ", ""])
  func spacesAtTheEnds(text: String) {
    let encoded = String(decoding: PercentEncoding.encode(text), as: UTF8.self)
    #expect(encoded == ["": "", " ": "%20", "  ": "%20%20", " a b ": "%20a b%20"][text])
    #expect(PercentEncoding.decode(encoded.utf8) == text)
  }

  @Test("The interop message survives the round trip")
  func roundTrip() {
    let message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
    #expect(PercentEncoding.decode(PercentEncoding.encode(message)) == message)
  }

  @Test("A broken escape stays as it is", arguments: ["%", "%4", "%zz", "a%G1b"])
  func lenient(text: String) {
    #expect(PercentEncoding.decode(text.utf8) == text)
  }
}

@Suite struct BinaryMetadataTests {
  @Test("RFC 4648 vectors decode with and without padding, and encode without")
  func vectors() {
    let vectors = [
      ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ]
    for (plain, padded) in vectors {
      let bare = padded.filter { $0 != "=" }
      #expect(BinaryMetadata.decode(padded.utf8) == Array(plain.utf8))
      #expect(BinaryMetadata.decode(bare.utf8) == Array(plain.utf8))
      #expect(BinaryMetadata.encode(Array(plain.utf8)) == Array(bare.utf8))
    }
  }

  @Test("Every byte survives the round trip")
  func allBytes() {
    for count in 0..<5 {
      let bytes = (0..<256).map { UInt8($0) } + [UInt8](repeating: 0xff, count: count)
      #expect(BinaryMetadata.decode(BinaryMetadata.encode(bytes)) == bytes)
    }
  }

  @Test(
    "What is not base64 is refused",
    arguments: ["Z", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z g=", "-_8=", "====", "Zm9v=", "Zh"]
  )
  func strict(text: String) {
    #expect(BinaryMetadata.decode(text.utf8) == nil)
  }

  @Test("Joined values come apart, in order")
  func joined() {
    #expect(BinaryMetadata.decodeList("Zg==, Zm8,Zm9v".utf8) == [Array("f".utf8), Array("fo".utf8), Array("foo".utf8)])
    #expect(BinaryMetadata.decodeList("Zg==,!".utf8) == nil)
  }
}

@Suite struct MessageFramerTests {
  private func feed(_ framer: inout MessageFramer, _ bytes: [UInt8], chunk: Int) throws -> [[UInt8]] {
    var messages: [[UInt8]] = []
    var index = 0
    while index < bytes.count {
      let end = min(index + chunk, bytes.count)
      let piece = Array(bytes[index..<end])
      // Read within the closure only.
      let failure = unsafe piece.withUnsafeBytes { piece -> RPCError? in
        do throws(RPCError) {
          unsafe try framer.receive(piece) { message throws(RPCError) in
            messages.append(Array(message.bytes.readableBytesView))
          }
          return nil
        } catch {
          return error
        }
      }
      if let failure { throw failure }
      index = end
    }
    return messages
  }

  private func frame(_ message: [UInt8], flag: UInt8 = 0) -> [UInt8] {
    let count = UInt32(message.count)
    return [flag] + [24, 16, 8, 0].map { UInt8(count >> $0 & 0xff) } + message
  }

  @Test("However the bytes are cut, the same messages come out", arguments: [1, 2, 3, 5, 7, 64, 10_000])
  func cuts(chunk: Int) throws {
    let messages: [[UInt8]] = [[], [1], Array(repeating: 7, count: 300), [], [2, 3], Array(repeating: 9, count: 1000)]
    var framer = MessageFramer()
    #expect(try feed(&framer, messages.flatMap { frame($0) }, chunk: chunk) == messages)
    #expect(framer.isBetweenMessages)
  }

  /// What the framer hands on in runs and one by one, put together as it travels; how many it said they were.
  private func feedRuns(
    _ framer: inout MessageFramer, _ bytes: [UInt8], cuts: [Int]
  ) throws -> (wire: [UInt8], count: Int) {
    var wire: [UInt8] = []
    var count = 0
    for (start, end) in zip([0] + cuts, cuts + [bytes.count]) {
      let piece = Array(bytes[start..<end])
      // Read within the closure only.
      let failure = unsafe piece.withUnsafeBytes { piece -> RPCError? in
        do throws(RPCError) {
          unsafe try framer.receive(
            piece,
            deliverRun: { run, number in
              unsafe wire += Array(run)
              count += number
            },
            deliver: { message in
              wire += frame(Array(message.bytes.readableBytesView), flag: message.isCompressed ? 1 : 0)
              count += 1
            }
          )
          return nil
        } catch {
          return error
        }
      }
      if let failure { throw failure }
    }
    return (wire, count)
  }

  @Test("Runs of whole messages and those that come in parts are what was sent, wherever it was cut")
  func runs() throws {
    let messages: [(UInt8, [UInt8])] = [
      (0, []), (1, [1]), (0, [4, 5, 6]), (0, []), (1, Array(repeating: 9, count: 258)), (0, [2, 3]), (1, []),
    ]
    let bytes = messages.flatMap { frame($1, flag: $0) }
    for first in 0...bytes.count {
      for second in first...bytes.count {
        var framer = MessageFramer()
        framer.coding = .gzip
        let (wire, count) = try feedRuns(&framer, bytes, cuts: [first, second])
        #expect(wire == bytes && count == messages.count, "cut after \(first) and \(second)")
        #expect(framer.isBetweenMessages && framer.currentLength == 0)
      }
    }
  }

  @Test(
    "Messages that come byte by byte, and long ones in many frames, keep their flags and lengths",
    arguments: [1, 2, 7, 16384])
  func pieces(size: Int) throws {
    let count = size < 16 ? 300 : 65_536
    let bytes =
      frame(Array(repeating: 1, count: count), flag: 1) + frame([2]) + frame(Array(repeating: 3, count: count))
    var framer = MessageFramer()
    framer.coding = .gzip
    let (wire, messages) = try feedRuns(&framer, bytes, cuts: Array(stride(from: size, to: bytes.count, by: size)))
    #expect(wire == bytes && messages == 3)
    #expect(framer.isBetweenMessages)
  }

  @Test("What is wrong with a message is found behind a run as well, wherever it was cut")
  func faultBehindRun() throws {
    let run = frame([1]) + frame([])
    for (fault, code) in [
      ([2, 0, 0, 0, 0], StatusCode.internal), ([1, 0, 0, 0, 0], .internal), ([0, 0, 0, 0, 11], .resourceExhausted),
    ]
      as [([UInt8], StatusCode)]
    {
      for cut in 0...run.count + fault.count {
        var framer = MessageFramer(limit: 10)
        let error = #expect(throws: RPCError.self) { try feedRuns(&framer, run + fault, cuts: [cut]) }
        #expect(error?.code == code, "cut after \(cut)")
      }
    }
  }

  @Test("A message over the limit is refused at its prefix")
  func limit() throws {
    var framer = MessageFramer(limit: 10)
    #expect(try feed(&framer, frame(Array(repeating: 0, count: 10)), chunk: 100).count == 1)
    let error = #expect(throws: RPCError.self) { try feed(&framer, [0, 0, 0, 0, 11], chunk: 5) }
    #expect(error?.code == .resourceExhausted)
    framer.reset(limit: 10)
    let huge = #expect(throws: RPCError.self) { try feed(&framer, [0, 0xff, 0xff, 0xff, 0xff], chunk: 5) }
    #expect(huge?.code == .resourceExhausted)
  }

  @Test("A compressed flag that nobody agreed on ends the call", arguments: [UInt8(1), 2, 255])
  func flag(flag: UInt8) throws {
    var framer = MessageFramer()
    let error = #expect(throws: RPCError.self) { try feed(&framer, [flag, 0, 0, 0, 0], chunk: 5) }
    #expect(error?.code == .internal)
  }

  @Test("A cut within a message is noticed")
  func truncation() throws {
    let whole = frame([1, 2, 3])
    for count in 1..<whole.count {
      var framer = MessageFramer()
      #expect(try feed(&framer, Array(whole.prefix(count)), chunk: 100).isEmpty)
      #expect(!framer.isBetweenMessages)
    }
  }
}
