internal import Cryptography
internal import Glibc
internal import NIOCore

/// Why a service did not start: one line for the operator, and the exit status.
package struct StartupError: Error, Sendable, CustomStringConvertible {
  package let description: String
  package let exitStatus: Int32

  /// `EX_CONFIG` of sysexits.h.
  static let badConfiguration: Int32 = 78

  package init(_ description: String, exitStatus: Int32 = 1) {
    self.description = description
    self.exitStatus = exitStatus
  }

  init(_ error: ConfigurationError) {
    self.init(error.description, exitStatus: Self.badConfiguration)
  }

  /// Any error that `what` ended with.
  init(_ what: String, _ error: any Error) {
    switch error {
    case let error as StartupError: self = error
    case let error as ConfigurationError: self.init(error)
    case let error as IOError: self.init("\(what): \(Self.message(error.errnoCode))")
    default: self.init("\(what): \(error)")
    }
  }

  private static func message(_ code: Int32) -> String {
    switch code {
    case EADDRINUSE: "the address is already in use"
    case EADDRNOTAVAIL: "the address is not one of this machine's"
    case EACCES: "permission denied"
    default: SystemError.text(code)
    }
  }
}
