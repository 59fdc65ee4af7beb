import CSSL

/// Who this side is: its certificate, the intermediates up to its authority, and the private key.
package struct TLSIdentity: Sendable {
  /// The leaf first.
  let chain: [X509Certificate]
  let key: PrivateKey

  /// Parses PEM. The key must be in the clear and belong to the first certificate.
  package init(certificateChain: [UInt8], privateKey: [UInt8]) throws(TLSError) {
    guard let chain = PEM.certificates(certificateChain), let leaf = chain.first else {
      throw TLSError(.configure, .us, .unusableIdentity("the certificate chain is not PEM"))
    }
    guard let key = PEM.privateKey(privateKey) else {
      throw TLSError(.configure, .us, .unusableIdentity("the private key is not PEM in the clear"))
    }
    // Both pointers live as long as their owners, which this scope holds.
    guard unsafe X509_check_private_key(leaf.pointer, key.pointer) == 1 else {
      ERR_clear_error()
      throw TLSError(.configure, .us, .unusableIdentity("the private key belongs to another certificate"))
    }
    self.chain = chain
    self.key = key
  }
}
