/// What the initiating device signs when it collects a grant that is its key's: that it holds the key.
package enum QRRedeemProof {
  /// ECDSA P-256 with SHA-256 is computed over these bytes.
  package static func message(deviceCode: String) -> [UInt8] {
    Array("latchkey-qr-redeem-v1".utf8) + [0] + Array(deviceCode.utf8)
  }
}
