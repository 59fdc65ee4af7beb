import Testing

@testable import GRPC

@Suite("gRPC-Web's forms")
struct WebFormTests {
  private func decode(_ text: String, piece: Int) -> [UInt8]? {
    var body = Base64Body()
    var result: [UInt8] = []
    var letters = Array(text.utf8)[...]
    while !letters.isEmpty {
      // Read within the closure only.
      guard let bytes = unsafe Array(letters.prefix(piece)).withUnsafeBytes({ unsafe body.decode($0) }) else {
        return nil
      }
      result += bytes
      letters = letters.dropFirst(piece)
    }
    return body.isComplete ? result : nil
  }

  @Test("Text decodes to the same bytes however it is padded and cut", arguments: [1, 2, 3, 4, 5, 100])
  func base64(piece: Int) {
    #expect(decode("AAECAwQF", piece: piece) == [0, 1, 2, 3, 4, 5])
    #expect(decode("AA==AQ==AgM=BAUG", piece: piece) == [0, 1, 2, 3, 4, 5, 6])
    #expect(decode("", piece: piece) == [])
  }

  @Test(
    "What is not base64 is not taken",
    arguments: ["A", "AA", "AAA", "AA=", "A===", "====", "AA=A", "AAA*", "AA A", "AB==", "AAAA\n"]
  )
  func malformed(text: String) {
    for piece in 1...5 { #expect(decode(text, piece: piece) == nil) }
  }

  @Test("A content type names a format, or none")
  func contentTypes() {
    func format(_ text: String) -> WebFormat? {
      // Read within the closure only.
      unsafe Array(text.utf8).withUnsafeBytes { unsafe WebFormat(contentType: $0) }
    }
    #expect(format("application/grpc-web") == .binary)
    #expect(format("application/grpc-web+proto; charset=utf-8") == .binary)
    #expect(format("application/grpc-web-text") == .text)
    #expect(format("application/grpc-web-text+proto") == .text)
    for other in [
      "", "application/grpc", "application/grpc-web+json", "application/grpc-webx", "application/grpc-web-",
    ] {
      #expect(format(other) == nil)
    }
  }

  @Test("grpc-accept-encoding is a list, and gzip one of its words")
  func accepted() {
    func coding(_ text: String) -> MessageCoding {
      // Read within the closure only.
      unsafe Array(text.utf8).withUnsafeBytes { unsafe MessageCoding(acceptedBy: $0) }
    }
    for text in ["gzip", "identity,gzip", "identity, deflate, gzip", " gzip ,identity"] {
      #expect(coding(text) == .gzip)
    }
    for text in ["", "identity", "deflate", "xgzip", "gzipx", "gz ip", ",,"] { #expect(coding(text) == .identity) }
  }
}
