import CSSL

extension TLSError {
  /// The thread's latest OpenSSL error as a sentence, for errors of configuration.
  static func lastOpenSSLText() -> String {
    text(of: ERR_peek_last_error())
  }

  /// What ended a session: the thread's error queue, read right after the call that failed.
  ///
  /// `verification` is `SSL_get_verify_result`, which says why a chain was refused.
  static func last(_ operation: Operation, verification: Int, isServer: Bool) -> TLSError {
    let code = ERR_peek_last_error()
    guard code != 0 else { return TLSError(operation, .system, .library("no reason given")) }
    guard ERR_GET_LIB(code) == ERR_LIB_SSL else {
      return ofLibrary(operation, code)
    }
    let reason = ERR_GET_REASON(code)
    // OpenSSL reports an alert of the peer as this offset plus the alert's number.
    if reason >= SSL_AD_REASON_OFFSET, reason < SSL_AD_REASON_OFFSET + 256 {
      return TLSError(operation, .peer, .alert(UInt8(reason - SSL_AD_REASON_OFFSET)))
    }
    switch reason {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      return TLSError(operation, .peer, verificationFailure(verification))
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return TLSError(operation, .peer, .certificateMissing)
    case SSL_R_NO_APPLICATION_PROTOCOL:
      return TLSError(operation, .peer, .noCommonProtocol)
    case SSL_R_NO_SHARED_CIPHER, SSL_R_UNSUPPORTED_PROTOCOL, SSL_R_VERSION_TOO_LOW, SSL_R_VERSION_TOO_HIGH,
      SSL_R_NO_SUITABLE_KEY_SHARE, SSL_R_NO_SHARED_GROUPS, SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM,
      SSL_R_NO_SUITABLE_GROUPS:
      return TLSError(operation, .peer, .noCommonParameters)
    case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST:
      return TLSError(operation, .peer, .notTLS)
    case SSL_R_NO_CERTIFICATE_ASSIGNED, SSL_R_NO_PRIVATE_KEY_ASSIGNED:
      return TLSError(operation, .us, .unusableIdentity(text(of: code)))
    case SSL_R_PROTOCOL_IS_SHUTDOWN:
      return TLSError(operation, .us, .closed)
    default:
      return TLSError(operation, .peer, .protocolViolation(text(of: code)))
    }
  }

  /// Errors below the TLS state machine: bytes that do not decode are the peer's fault, lack of memory is not.
  private static func ofLibrary(_ operation: Operation, _ code: UInt) -> TLSError {
    if ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE || ERR_GET_LIB(code) == ERR_LIB_SYS {
      return TLSError(operation, .system, .library(text(of: code)))
    }
    return TLSError(operation, .peer, .protocolViolation(text(of: code)))
  }

  private static func verificationFailure(_ result: Int) -> Reason {
    switch Int32(truncatingIfNeeded: result) {
    case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID: return .certificateOutOfDate
    case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH: return .wrongHost
    default:
      // The function answers with a constant string for every number.
      guard let text = unsafe X509_verify_cert_error_string(result) else { return .untrustedCertificate("unknown") }
      return unsafe .untrustedCertificate(String(cString: text))
    }
  }

  private static func text(of code: UInt) -> String {
    // A constant string, or NULL for a code without text.
    guard let text = unsafe ERR_reason_error_string(code) else { return "error \(code)" }
    return unsafe String(cString: text)
  }
}
