internal import HTTP2
internal import NIOHTTP1

/// What RFC 9112 and RFC 9110 ask of a request's head beyond the syntax, which the decoder has checked.
extension HTTPRequestHead {
  /// The target's path and query, whatever the target's form; nil where it is none that a server is asked with.
  ///
  /// Source: RFC 9112 §3.2.
  var originForm: String? {
    if uri.utf8.first == UInt8(ascii: "/") { return uri }
    if uri == "*" { return method == .OPTIONS ? uri : nil }
    // §3.2.2: clients of proxies send all of the address.
    for scheme in ["http://", "https://"] where uri.prefix(scheme.count).lowercased() == scheme {
      let rest = uri.dropFirst(scheme.count)
      let authority = rest.prefix { !["/", "?"].contains($0) }
      guard !authority.isEmpty, Authority.isValid(authority) else { return nil }
      let target = rest.dropFirst(authority.count)
      return target.first == "/" ? String(target) : "/\(target)"
    }
    return nil
  }

  /// The answer to a request that is not served whatever it asks for; nil for one that may be.
  var refusal: PageResponse? {
    let hosts = headers["host"]
    // RFC 9112 §3.2.
    guard hosts.count == 1 || (hosts.isEmpty && version == .http1_0), hosts.allSatisfy(Authority.isValid) else {
      return PageResponse(status: 400, text: "one host must be named\n")
    }
    guard originForm != nil else { return PageResponse(status: 400, text: "the target is not understood\n") }
    // RFC 9112 §6.1: a reader of HTTP/1.0 sees another body.
    guard version != .http1_0 || !headers.contains(name: "transfer-encoding") else {
      return PageResponse(status: 400, text: "HTTP/1.0 has no transfer codings\n")
    }
    // The same: what else the body is coded in would be taken for the body.
    guard headers["transfer-encoding"].allSatisfy({ $0.lowercased() == "chunked" }) else {
      return PageResponse(status: 501, text: "the transfer coding is not supported\n")
    }
    // RFC 9110 §10.1.1.
    guard headers["expect"].allSatisfy({ $0.lowercased() == "100-continue" }) else {
      return PageResponse(status: 417, text: "the expectation is not supported\n")
    }
    return nil
  }

  /// Whether the parser takes what follows the request for another protocol, which nobody here speaks: that is passed
  /// over, be it the next request (RFC 9110 §7.8, §9.3.6).
  var endsHTTP: Bool { method == .CONNECT || headers.contains(name: "upgrade") }

  /// Whether the client waits to be told to send the body (RFC 9110 §10.1.1).
  var waitsForContinue: Bool {
    guard version == .http1_1, headers.contains(name: "expect") else { return false }
    return headers.contains(name: "transfer-encoding") || headers["content-length"].contains { $0 != "0" }
  }
}
