import CPostgreSQL
import Storage

/// Where a database is: `postgresql://user@host:port,host2:port/database?target_session_attrs=read-write`.
///
/// Prints without the password, which no error ever holds.
package struct PostgreSQLURL: Sendable, CustomStringConvertible {
  /// libpq's keywords with their values.
  private(set) var options: [String: String] = [:]

  /// Errors: `misuse` for a text that libpq does not take. The text is not repeated: it may hold a password.
  package init(_ text: String) throws(StorageError) {
    let scheme = ["postgresql://", "postgres://"].contains { text.hasPrefix($0) }
    // The text lives through the call; libpq's message, which may repeat it, is not asked for.
    guard scheme, let parsed = unsafe PQconninfoParse(text, nil) else {
      throw StorageError(.misuse, operation: "read the database's URL", detail: "no postgresql:// URL")
    }
    defer { unsafe PQconninfoFree(parsed) }
    var option = unsafe parsed
    // The list ends with an option that has no keyword.
    while let keyword = unsafe option.pointee.keyword {
      if let value = unsafe option.pointee.val {
        options[unsafe String(cString: keyword)] = unsafe String(cString: value)
      }
      unsafe option += 1
    }
  }

  package var hasPassword: Bool { options["password"] != nil }

  package func with(password: String) -> PostgreSQLURL {
    var url = self
    url.options["password"] = password
    return url
  }

  /// What a list has for each host; one element is for all of them.
  private func listed(_ keyword: String) -> [String] {
    (options[keyword] ?? "").split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
  }

  private func port(_ index: Int) -> String {
    let ports = listed("port")
    return ports.count == 1 ? ports[0] : index < ports.count ? ports[index] : ""
  }

  /// The same for each host alone, in their order.
  var ofEachHost: [PostgreSQLURL] {
    let (hosts, addresses) = (listed("host"), listed("hostaddr"))
    let count = max(hosts.count, addresses.count)
    guard count > 1 else { return [self] }
    // What is safe for all of them is so for each.
    let common = connectionOptions
    return (0..<count).map { index in
      var url = self
      url.options = common
      if options["host"] != nil { url.options["host"] = index < hosts.count ? hosts[index] : "" }
      if options["hostaddr"] != nil { url.options["hostaddr"] = index < addresses.count ? addresses[index] : "" }
      if options["port"] != nil { url.options["port"] = port(index) }
      return url
    }
  }

  package var description: String {
    let hosts = listed(options["host"] != nil ? "host" : "hostaddr")
    let places = hosts.indices.map { index in
      port(index).isEmpty ? hosts[index] : "\(hosts[index]):\(port(index))"
    }
    let user = options["user"].map { "\($0)@" } ?? ""
    return "postgresql://\(user)\(places.joined(separator: ","))/\(options["dbname"] ?? "")"
  }

  /// What a connection is made with: what the URL says, and where it says nothing what is safe.
  var connectionOptions: [String: String] {
    var defaults = [
      "application_name": "latchkey",
      "connect_timeout": "\(Limits.connectSeconds)",
      "target_session_attrs": "read-write",
      // A peer that vanished without a word is noticed within some fifteen seconds.
      "keepalives_idle": "5", "keepalives_interval": "5", "keepalives_count": "2", "tcp_user_timeout": "15000",
    ]
    if !isLocal {
      defaults["sslmode"] = "verify-full"
      defaults["sslrootcert"] = "/etc/ssl/certs/ca-certificates.crt"
    }
    var merged = defaults.merging(options) { _, given in given }
    merged["client_encoding"] = "UTF8"
    return merged
  }

  /// Whether nobody is in between: the URL names sockets of this machine, and nothing else. One that names none leaves the
  /// host to the environment, where it may be any.
  private var isLocal: Bool {
    let hosts = (options["host"] ?? "").split(separator: ",")
    let addresses = (options["hostaddr"] ?? "").split(separator: ",")
    guard !hosts.isEmpty || !addresses.isEmpty, options["service"] == nil else { return false }
    return hosts.allSatisfy { host in
      host.hasPrefix("/") || host.hasPrefix("@") || host == "localhost" || host == "127.0.0.1" || host == "::1"
    } && addresses.allSatisfy { $0 == "127.0.0.1" || $0 == "::1" }
  }
}
