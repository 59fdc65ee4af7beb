/// Whether a secret may be tried now.
package enum AttemptOutcome: Sendable, Equatable {
  case allowed
  case wait(Duration)
}
