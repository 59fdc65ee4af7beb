internal import Glibc
internal import NIOCore

/// Why a connection did not come up, in words for whoever reads an error message or a log.
enum ConnectFailure {
  static func text(_ error: any Error) -> String {
    guard let code = (error as? IOError)?.errnoCode else { return "\(error)" }
    return switch code {
    case ECONNREFUSED: "connection refused"
    case ECONNRESET: "connection reset"
    case ETIMEDOUT: "timed out"
    case EHOSTUNREACH: "no route to host"
    case ENETUNREACH: "network is unreachable"
    default: "\(error)"
    }
  }
}
