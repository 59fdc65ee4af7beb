/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// The longest line of the PROXY protocol's version 1, its end included (section 2.1).
  static let proxyLineBytes = 107

  /// The longest header of version 2: the addresses, and some extensions, of which a client's certificate may bring
  /// names. The specification has proxies keep to 536 bytes, so that it comes in one segment.
  static let proxyHeaderBytes = 2048

  /// Proxies in a row that a request may have passed.
  static let hops = 16

  /// How many times as much another source has waiting where it is its doing, and not that of many alike, that there is too
  /// much to do.
  static let muchMore = 4

  /// Places in a queue's line of those that have far less waiting than another: some milliseconds of work.
  static let placesOfFew = 64
}
