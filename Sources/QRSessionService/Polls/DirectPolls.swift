import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore

/// Answers the polls of one connection that neither wait nor redeem, within the read pass that brings them.
///
/// Among a million sessions such a poll spends a third of its time waiting for two lines of memory. So what a client
/// sends together is looked at ahead of its turn: the code is hashed, and the lines are on their way meanwhile.
final class DirectPolls: DirectAnswers {
  private struct Foreseen {
    let code: DeviceCodeText
    let secret: Digest256
  }

  private let api: QRSessionAPI
  private let fetchedPieces: Int
  /// What the device codes of this cell begin with; empty in cell 0.
  private let prefix: [UInt8]
  /// Polls whose turn is to come, the earliest first, from `first` on.
  private var foreseen: [Foreseen] = []
  private var first = 0

  /// - Parameter fetchedPieces: how large the table is from which on polls are looked at ahead of their turn.
  init(_ api: QRSessionAPI, fetchedPieces: Int = Limits.fetchedPieces) {
    self.api = api
    self.fetchedPieces = fetchedPieces
    prefix = Array(api.cell.prefix.utf8)
  }

  /// False leaves the poll to `pollSession`: among others every poll that is not well-formed, so that one place says
  /// what is wrong with it.
  func answer(_ message: Span<UInt8>, into answer: inout ByteBuffer) throws(RPCError) -> Bool {
    guard let request = QRV1.PollSessionRequest.Borrowed(message), request.codeVerifier.isEmpty, request.waitMs == 0,
      request.lastVersion >= 0,
      let secret = takeSecret(message.extracting(behindPrefix(request.deviceCode, of: message)))
    else { return false }
    let decision = api.table.poll(
      secret,
      lastVersion: request.lastVersion,
      waits: false,
      base: api.settings.interval,
      at: api.clock.now()
    )
    switch decision {
    case .unknown, .wait: return false
    case .slowDown(let retryAfter, let interval): throw .slowDown(retryAfter: retryAfter, interval: interval)
    case .untouched(let interval):
      if interval == api.settings.interval {
        unsafe answer.writeWithUnsafeMutableBytes(minimumWritableBytes: api.untouchedAnswer.count) { room in
          unsafe room.copyBytes(from: api.untouchedAnswer)
          return api.untouchedAnswer.count
        }
      } else {
        try QRSessionAPI.untouched(interval).encodeFrame(into: &answer)
      }
      return true
    case .answer(let view, let interval):
      try QRSessionAPI.answer(view, interval).encodeFrame(into: &answer)
      return true
    }
  }

  func foresee(_ message: Span<UInt8>) -> Bool {
    guard api.table.pieceCount >= fetchedPieces else { return false }
    guard let request = QRV1.PollSessionRequest.Borrowed(message),
      case let text = behindPrefix(request.deviceCode, of: message),
      let code = DeviceCodeText(message.extracting(text)), let secret = Self.secret(message.extracting(text))
    else { return true }
    if foreseen.count == Limits.foreseenPolls * 2 {
      foreseen.removeFirst(max(first, foreseen.count - Limits.foreseenPolls))
      first = 0
    }
    foreseen.append(Foreseen(code: code, secret: secret))
    api.table.fetchIndex(secret)
    // Its line of the index has come since.
    let earlier = foreseen.count - 1 - Limits.foreseenPolls / 2
    if earlier >= first { api.table.fetchEntry(foreseen[earlier].secret) }
    return true
  }

  /// Where the code goes on behind the prefix of this cell; nothing for one that does not begin with it.
  private func behindPrefix(_ code: Range<Int>, of message: Span<UInt8>) -> Range<Int> {
    guard !prefix.isEmpty else { return code }
    let start = code.lowerBound + prefix.count
    guard start <= code.upperBound else { return code.upperBound..<code.upperBound }
    for index in prefix.indices where message[code.lowerBound + index] != prefix[index] {
      return code.upperBound..<code.upperBound
    }
    return start..<code.upperBound
  }

  /// What the table knows the code's session by. Known already when the code was foreseen: it is the same text.
  private func takeSecret(_ text: Span<UInt8>) -> Digest256? {
    if first < foreseen.count, let code = DeviceCodeText(text) {
      while first < foreseen.count {
        defer { first += 1 }
        if foreseen[first].code == code { return foreseen[first].secret }
      }
    }
    return Self.secret(text)
  }

  private static func secret(_ text: Span<UInt8>) -> Digest256? {
    Base64URL.decode32(text).map { Digest256(SHA256Hash.hash($0.span)) }
  }
}
