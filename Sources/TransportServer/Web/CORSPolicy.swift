/// Which web origins may read answers across origins, and what a browser's preflight is told.
///
/// Only the origins that are listed, and never with credentials of the browser's own: calls carry their tokens in
/// metadata. Source: the Fetch standard, "CORS protocol".
package struct CORSPolicy: Sendable {
  /// How long a browser may remember a preflight: what the strictest of them allows, so that a changed list is soon
  /// in force.
  private static let maximumAge = "7200"

  /// What a script may see beside the body and the few fields that are always visible.
  private static let exposed = "grpc-status, grpc-message, grpc-status-details-bin"

  private let origins: Set<String>

  /// Nobody.
  package static let none = CORSPolicy(origins: [])

  private init(origins: Set<String>) {
    self.origins = origins
  }

  /// Nil where one of the texts is not an origin: a scheme, a host and perhaps a port, such as `https://app.example`.
  /// There is no wildcard.
  package init?(allowing texts: [String]) {
    guard texts.allSatisfy(Self.isOrigin) else { return nil }
    origins = Set(texts)
  }

  /// As browsers write it: lower case, no path, no default port.
  private static func isOrigin(_ text: String) -> Bool {
    let prefixes = [("https://", ":443"), ("http://", ":80")]
    guard let (scheme, port) = prefixes.first(where: { text.hasPrefix($0.0) }), !text.hasSuffix(port) else {
      return false
    }
    let host = text.utf8.dropFirst(scheme.utf8.count)
    return !host.isEmpty
      && host.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
          UInt8(ascii: "."), UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"):
          true
        default: false
        }
      }
  }

  /// The fields that an answer to a request from `origin` needs.
  ///
  /// - Parameter metadata: names of fields that this answer shows to scripts as well.
  func fields(origin: String?, exposing metadata: [String] = []) -> [(name: String, value: String)] {
    guard !origins.isEmpty else { return [] }
    // Also without an origin: a cache must not answer one origin with what was meant for another.
    guard let origin, origins.contains(origin) else { return [("vary", "Origin")] }
    return [
      ("vary", "Origin"),
      ("access-control-allow-origin", origin),
      ("access-control-expose-headers", ([Self.exposed] + metadata).joined(separator: ", ")),
    ]
  }

  /// Whether a browser sent the request for a page of another site that may not read the answer. Forms and texts come without
  /// being asked for first, and what they begin would be begun from the visitor's address. Browsers of the last years say so
  /// to servers with TLS; nobody else does.
  ///
  /// Source: Fetch Metadata Request Headers, §2.3.
  func isForeign(_ request: PageRequest) -> Bool {
    guard let site = request.header("sec-fetch-site"), site != "same-origin", site != "none" else { return false }
    guard let origin = request.header("origin") else { return true }
    return !origins.contains(origin)
  }

  /// The answer to a preflight; nil for another request, or where nobody may ask.
  func preflight(_ request: PageRequest) -> PageResponse? {
    guard !origins.isEmpty, request.method == "OPTIONS", let origin = request.header("origin"),
      let method = request.header("access-control-request-method")
    else { return nil }
    let vary = ("vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
    guard origins.contains(origin), ["GET", "POST"].contains(method) else {
      return PageResponse(status: 403, headers: [vary])
    }
    var headers: [(name: String, value: String)] = [
      vary,
      ("access-control-allow-origin", origin),
      ("access-control-allow-methods", "GET, POST"),
      ("access-control-max-age", Self.maximumAge),
    ]
    // Metadata has names of the app's choosing, so what is asked for is granted, if it is a list of names.
    if let wanted = request.header("access-control-request-headers"), wanted.utf8.allSatisfy(Self.isListOfNames) {
      headers.append(("access-control-allow-headers", wanted))
    }
    return PageResponse(status: 204, headers: headers)
  }

  private static func isListOfNames(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
      UInt8(ascii: ","), UInt8(ascii: " "):
      true
    default: false
    }
  }
}
