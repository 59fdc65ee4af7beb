/// Names of fields whose values must not be logged (R2): the last guard, for a caller who should have known better.
enum SecretNames {
  private static let words = [
    "token", "secret", "password", "authorization", "credential", "proof", "verifier", "private", "cookie",
    "device_code",
    "user_code", "otp", "ticket",
  ]

  static func contains(_ name: String) -> Bool {
    let name = name.lowercased()
    return words.contains { name.contains($0) }
  }
}
