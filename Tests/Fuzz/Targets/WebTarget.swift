import GRPC
import NIOCore
import NIOEmbedded

@testable import TransportServer

/// A gRPC-Web call: whatever its body is, the answer is well-formed, and the same however the body is cut.
///
/// The first byte of the input chooses the call; the others are the body, in pieces as in other targets.
struct WebTarget: FuzzTarget {
  let name = "web"

  private static let paths = ["/t.T/Echo", "/t.T/Many", "/t.T/Sum", "/t.T/None"]

  /// What the first byte says.
  private struct Choice {
    let isText: Bool
    let path: String
    let fields: [(String, String)]
    let isLate: Bool

    init(_ byte: UInt8) {
      isLate = byte >> 7 != 0
      isText = byte & 1 != 0
      path = WebTarget.paths[Int(byte >> 1 & 3)]
      fields = [
        ("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip"), ("origin", "http://a"), ("grpc-timeout", "1S"),
      ].enumerated().filter { byte >> (3 + $0.offset) & 1 != 0 }.map(\.element)
    }
  }

  private struct Outcome: Equatable {
    var isOK = false
    var frames: [[UInt8]] = []
  }

  func run(_ input: UnsafeRawBufferPointer) {
    guard input.count > 2 else { return }
    // In bounds by the line above; no closure keeps a pointer.
    let choice = unsafe Choice(input[0])
    let body = unsafe UnsafeRawBufferPointer(rebasing: input[1...])
    let whole = unsafe outcome(choice) { receive in unsafe receive(UnsafeRawBufferPointer(rebasing: body[1...])) }
    let cut = unsafe outcome(choice) { receive in unsafe body.forEachPiece { unsafe receive($0) } }
    // Text is decoded in groups, so of two mistakes the second may be seen first: that is no difference.
    precondition(whole.isOK == cut.isOK, "where a read ends made a difference")
    precondition(!whole.isOK || whole == cut, "where a read ends made a difference to the answer")
  }

  private func outcome(_ choice: Choice, _ feed: ((UnsafeRawBufferPointer) -> Void) -> Void) -> Outcome {
    let counter = CallCounter()
    let environment = FuzzedServer.environment(counter)
    let loop = EmbeddedEventLoop()
    let head = head(choice, environment)
    guard let format = head.webFormat else { preconditionFailure("the head is that of a gRPC-Web call") }
    let sink = Sink(loop, isLate: choice.isLate)
    let place = WebCall.Place(
      environment: environment,
      executor: EventLoopTaskExecutor(loop),
      peer: Peer(address: "127.0.0.1", port: 1),
      account: SourceAccount(),
      answersWhole: true
    )
    let call = WebCall(format, head, place, sink: sink)
    call.begin(head)
    unsafe feed { bytes in
      // Read within the call only.
      unsafe call.receive(bytes)
      loop.run()
    }
    call.receivedEnd()
    loop.run()
    precondition(sink.hasEnded, "a call that never ended")
    precondition(!choice.isLate || counter.started == 0, "a late call that was begun")
    precondition(!call.isHandlerRunning && counter.started == counter.finished, "a call that never finished")
    precondition(environment.budget.usage.calls == 0, "a call that was never given back")
    return outcome(sink.body, choice)
  }

  private func head(_ choice: Choice, _ environment: ServerEnvironment) -> RequestHead {
    var head = RequestHead()
    let contentType = choice.isText ? "application/grpc-web-text" : "application/grpc-web+proto"
    for (name, value) in [(":method", "POST"), (":path", choice.path), ("content-type", contentType)] + choice.fields {
      unsafe Array(name.utf8).withUnsafeBytes { name in
        unsafe Array(value.utf8).withUnsafeBytes { value in
          // Both are copied.
          unsafe head.receive(name, value, environment.router)
        }
      }
    }
    return head
  }

  /// Frames, of which the last one, and no other, has the trailers.
  private func outcome(_ body: [UInt8], _ choice: Choice) -> Outcome {
    var outcome = Outcome()
    var rest = (choice.isText ? decoded(body) : body)[...]
    var trailers: String?
    while !rest.isEmpty {
      precondition(trailers == nil, "a frame after the trailers")
      precondition(rest.count >= 5, "a frame without its prefix")
      let flag = rest[rest.startIndex]
      let count = rest.dropFirst().prefix(4).reduce(0) { $0 << 8 | Int($1) }
      rest = rest.dropFirst(5)
      precondition(rest.count >= count, "a frame that is cut")
      let frame = Array(rest.prefix(count))
      rest = rest.dropFirst(count)
      if flag == 0x80 {
        trailers = String(decoding: frame, as: UTF8.self)
      } else {
        precondition(flag <= 1, "a flag that is none")
        outcome.frames.append(frame)
      }
    }
    guard let trailers else { preconditionFailure("an answer without trailers") }
    let status = trailers.split(separator: "\r\n").filter { $0.hasPrefix("grpc-status: ") }
    precondition(status.count == 1, "not one status")
    outcome.isOK = status == ["grpc-status: 0"]
    return outcome
  }

  private func decoded(_ text: [UInt8]) -> [UInt8] {
    var decoder = Base64Body()
    // Read within the closure only.
    guard let bytes = unsafe text.withUnsafeBytes({ unsafe decoder.decode($0) }), decoder.isComplete else {
      preconditionFailure("an answer that is not base64")
    }
    return bytes
  }

  /// Keeps the body, and sees to its order.
  private final class Sink: WebCallSink {
    private let loop: EmbeddedEventLoop
    private(set) var body: [UInt8] = []
    private var hasBegun = false
    private(set) var hasEnded = false
    private let isLate: Bool

    init(_ loop: EmbeddedEventLoop, isLate: Bool) {
      self.loop = loop
      self.isLate = isLate
    }

    func webCall(_ call: WebCall, answers headers: [(name: String, value: String)]) {
      precondition(!hasBegun && !hasEnded, "a second head")
      hasBegun = true
    }

    func webCall(_ call: WebCall, sends body: ByteBuffer) {
      precondition(hasBegun && !hasEnded, "a part of the body out of its turn")
      self.body.append(contentsOf: body.readableBytesView)
      let count = body.readableBytes
      loop.assumeIsolated().execute { call.wrote(count) }
    }

    func webCallEnded(_ call: WebCall) {
      precondition(hasBegun && !hasEnded, "an end out of its turn")
      hasEnded = true
    }

    func webCallKeepsLittle(_ call: WebCall) {
      precondition(call.heldBytes == 0, "a call keeps what it let go of")
    }

    func webCall(_ call: WebCall, isLateAfter patience: TimeAmount) -> Bool { isLate }

    func webCallReturned(_ call: WebCall) {}
  }
}
