/// The digests by which a session is found: of the poll secret, of the reference in the code, and of the user code.
package struct QRSessionKeys: Sendable, Equatable {
  package let pollSecret: Digest256
  package let reference: Digest256
  package let userCode: Digest256

  package init(pollSecret: Digest256, reference: Digest256, userCode: Digest256) {
    self.pollSecret = pollSecret
    self.reference = reference
    self.userCode = userCode
  }
}
