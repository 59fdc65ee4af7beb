extension Limits {
  /// Refusals of one call, unseen by the server's application, that are repeated outside the retry policy. gRFC A6 asks
  /// for one; four more, 150 ms in all, outlast a busy server's tidying up and are few enough not to feed an overload.
  static let refusals = 5
}
