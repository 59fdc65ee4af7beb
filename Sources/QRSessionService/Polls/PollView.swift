import LatchkeyModel

/// A session as its poller sees it.
struct PollView: Sendable, Equatable {
  let id: QRSessionID
  let state: QRSessionState
  let version: Int64
  /// The account that scanned, masked.
  let mask: DisplayText?

  /// As it was issued: nearly all polls find their session so.
  static let untouchedVersion: Int64 = 1
  var isUntouched: Bool { state == .pending && version == PollView.untouchedVersion && mask == nil }
}
