/// Which of a device's sessions is meant. The raw value names it in the secret store.
enum SessionSlot: String, Sendable {
  /// Of whoever uses the device now.
  case current = "session"
  /// Of the guest who used it before the account that does now: the proof that its data may be moved.
  case guestLeftBehind = "guest-session"
}
