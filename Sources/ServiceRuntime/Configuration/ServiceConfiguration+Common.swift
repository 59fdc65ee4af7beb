internal import Callers
internal import Glibc

extension ServiceConfiguration {
  /// The proxies that say for whom they ask.
  var proxies: TrustedProxies {
    TrustedProxies(
      self[CommonKeys.trustedProxies],
      field: self[CommonKeys.proxyField],
      requiresHeader: self[CommonKeys.proxyHeaderRequired]
    )
  }

  package var listen: Endpoint {
    Endpoint(host: self[CommonKeys.listenHost], port: self[CommonKeys.listenPort()])
  }

  package var management: Endpoint {
    Endpoint(host: self[CommonKeys.managementHost], port: self[CommonKeys.managementPort()])
  }

  /// Where other instances of this service reach this one.
  var instanceAddress: Endpoint {
    if let address = self[CommonKeys.instanceAddress] { return address }
    guard ["0.0.0.0", "::"].contains(listen.host) else { return listen }
    var name = [CChar](repeating: 0, count: 256)
    // Fills at most what the array has; the last byte stays 0.
    let isNamed = unsafe gethostname(&name, name.count - 1) == 0
    let host = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return Endpoint(host: isNamed && !host.isEmpty ? host : listen.host, port: listen.port)
  }

  package var dataDirectory: String { self[CommonKeys.dataDirectory] }

  package var serviceTokenFile: String {
    self[CommonKeys.serviceTokenFile] ?? "\(dataDirectory)/service-token"
  }

  package var policyFile: String { self[CommonKeys.policyFile] ?? "\(dataDirectory)/policies.json" }

  /// The certificate chain and its key; nil for cleartext.
  package var certificateFiles: (certificate: String, key: String)? {
    guard let certificate = self[CommonKeys.certificateFile], let key = self[CommonKeys.keyFile] else { return nil }
    return (certificate, key)
  }

  /// What this service shows to others that it calls, where services prove themselves by certificate: a certificate of
  /// its own, or the one that the port presents.
  package var clientCertificateFiles: (certificate: String, key: String)? {
    guard let certificate = self[CommonKeys.clientCertificateFile], let key = self[CommonKeys.clientKeyFile] else {
      return certificateFiles
    }
    return (certificate, key)
  }

  /// What one key alone cannot say.
  func checkTogether() throws(ConfigurationError) {
    let (certificate, key) = (self[CommonKeys.certificateFile], self[CommonKeys.keyFile])
    guard (certificate == nil) == (key == nil) else {
      throw .conflict("tls.certificateFile and tls.keyFile must be set together")
    }
    guard (self[CommonKeys.clientCertificateFile] == nil) == (self[CommonKeys.clientKeyFile] == nil) else {
      throw .conflict("tls.clientCertificateFile and tls.clientKeyFile must be set together")
    }
    if self[CommonKeys.serviceAuthentication] == .certificate {
      guard certificate != nil, self[CommonKeys.caFile] != nil, self[CommonKeys.callerCAFile] != nil else {
        throw .conflict(
          "services.authentication certificate needs tls.certificateFile, tls.keyFile, tls.caFile and tls.callerCaFile"
        )
      }
    }
    if certificate == nil, !listen.isLoopback, !self[CommonKeys.insecureCleartext] {
      throw .conflict(
        "listen.host \(listen.host) is reachable from other machines and there is no TLS: set tls.certificateFile and "
          + "tls.keyFile, or insecureCleartext if a proxy terminates TLS"
      )
    }
    if self[CommonKeys.storagePasswordFile] != nil, !sharesStorage {
      throw .conflict("storage.passwordFile is for a storage.url of postgresql://")
    }
    if self[CommonKeys.proxyHeaderRequired], self[CommonKeys.trustedProxies].isEmpty {
      throw .conflict("proxies.requireProxyProtocol needs proxies.trusted")
    }
    guard !self[CommonKeys.development] || (listen.isLoopback && management.isLoopback) else {
      throw .conflict("dev is for one machine: listen.host and management.host must be loopback addresses")
    }
    guard listen.port == 0 || listen != management else {
      throw .conflict("listen.port and management.port must differ")
    }
  }
}
