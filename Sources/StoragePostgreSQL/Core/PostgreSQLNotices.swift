import CPostgreSQL

/// What the server says besides its answers. Used by the connection's thread alone.
final class PostgreSQLNotices {
  /// The last warning since it was forgotten.
  private(set) var warning: String?

  /// The server said that it ends the connection.
  private(set) var isFarewell = false

  func forget() { warning = nil }

  private func note(_ notice: PostgreSQLFailure, _ severity: String) {
    if severity == "WARNING" { warning = "\(notice.code): \(notice.message)" }
    if severity == "FATAL" || severity == "PANIC" { isFarewell = true }
  }

  /// libpq's way of handing over a notice.
  static func receive(_ owner: UnsafeMutableRawPointer?, _ result: OpaquePointer?) {
    guard let owner = unsafe owner, let result = unsafe result else { return }
    // The connection that the pointer was set on keeps the object; the result lives through the call.
    let notices = unsafe Unmanaged<PostgreSQLNotices>.fromOpaque(owner).takeUnretainedValue()
    let severity = unsafe latchkey_pq_severity(result).map { unsafe String(cString: $0) } ?? ""
    notices.note(unsafe PostgreSQLFailure(result), severity)
  }
}
