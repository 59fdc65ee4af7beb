import LatchkeyClient

/// What one command leaves in the profile for the next, such as the ticket that collects a QR sign-in.
enum ProfileNote: String {
  case qrTicket = "qr-ticket"
  case qrConfirmTicket = "qr-confirm-ticket"
  case qrScan = "qr-scan"
  case mergePlan = "merge-plan"
  case merge = "merge"

  func keep(_ text: String, in settings: Settings) throws(CommandFailure) {
    try keep(Array(text.utf8), in: settings)
  }

  func keep(_ bytes: [UInt8], in settings: Settings) throws(CommandFailure) {
    do throws(SecretStoreError) {
      try settings.secrets.save(bytes, as: rawValue)
    } catch {
      throw CommandFailure(.file, error.description)
    }
  }

  /// Nil when no command left one.
  func bytes(in settings: Settings) throws(CommandFailure) -> [UInt8]? {
    do throws(SecretStoreError) {
      return try settings.secrets.secret(named: rawValue)
    } catch {
      throw CommandFailure(.file, error.description)
    }
  }

  func text(in settings: Settings) throws(CommandFailure) -> String? {
    try bytes(in: settings).map { String(decoding: $0, as: UTF8.self) }
  }

  func remove(in settings: Settings) throws(CommandFailure) {
    do throws(SecretStoreError) {
      try settings.secrets.removeSecret(named: rawValue)
    } catch {
      throw CommandFailure(.file, error.description)
    }
  }
}
