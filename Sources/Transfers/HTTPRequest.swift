/// A request to somebody else's HTTP server.
package struct HTTPRequest: Sendable, Equatable {
  /// `https://…`; `http://…` only where the configuration said that it may be.
  package var address: String
  /// Nil asks by GET, anything else is sent by POST.
  package var body: [UInt8]?
  /// Without line breaks.
  package var fields: [(name: String, value: String)]
  /// A file of certificates in PEM that the server's must chain to; nil for those of the system.
  package var authoritiesFile: String?

  package init(
    _ address: String,
    body: [UInt8]? = nil,
    fields: [(name: String, value: String)] = [],
    authoritiesFile: String? = nil
  ) {
    self.address = address
    self.body = body
    self.fields = fields
    self.authoritiesFile = authoritiesFile
  }

  package static func == (left: HTTPRequest, right: HTTPRequest) -> Bool {
    left.address == right.address && left.body == right.body && left.authoritiesFile == right.authoritiesFile
      && left.fields.elementsEqual(right.fields) { $0 == $1 }
  }
}
