/// The fields that most answers have and no call adds to.
package struct HTTP2CommonAnswer: Sendable {
  package var head = HTTP2FieldList()
  package var trailers = HTTP2FieldList()
  /// Head and trailers in one, of an answer without a body: what `turnAway` says.
  package var refusal = HTTP2FieldList()

  package init() {}

  package init(head: HTTP2FieldList, trailers: HTTP2FieldList) {
    self.head = head
    self.trailers = trailers
  }
}
