package import NIOCore

/// The header block of a request, decoded and found well-formed.
///
/// A client says the same of call after call, often in the same bytes: then the session hands the same object out
/// again, and what its user made of it, `meaning`, need not be made again.
package final class HTTP2RequestBlock {
  var fields = GatheredFields()
  /// Bytes of the list, as RFC 9113 §6.5.2 counts them.
  var listBytes = 0
  /// What `content-length` says; nil without one.
  var contentLength: Int?

  /// What the user of the session made of the fields.
  package var meaning: AnyObject?
  /// Whether the user may answer a request with this block and a short body within the call that brings it the body.
  package var allowsDirectAnswer = false
  /// How late a request with this block may be before the user is asked, within the same call, to turn it away; nil for
  /// one that is never turned away.
  package var patience: TimeAmount?

  init() {}

  /// Calls `body` with each field, in order, until it returns false; with none once there is a `meaning` and the block was
  /// received. The pointers are valid during the call.
  package func forEach(_ body: (_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool) {
    // The fields do not change: `body` has no way to.
    _ = unsafe fields.deliver(body)
  }

  /// What its fields take in memory.
  package var byteCount: Int { fields.byteCount }

  /// What its user made of the fields stands for them: their memory serves for the next block.
  func giveBack(to gathering: inout GatheredFields) {
    guard meaning != nil else { return }
    swap(&fields, &gathering)
    gathering.clear()
  }
}
