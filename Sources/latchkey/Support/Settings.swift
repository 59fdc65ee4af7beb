import LatchkeyClient

/// What one run of the tool works with.
struct Settings: Sendable {
  let client: ClientConfiguration
  let profileDirectory: String
  /// Which certificate authorities are trusted; nil for cleartext.
  let trust: String?

  var secrets: FileSecretStore { FileSecretStore(directory: profileDirectory) }
}
