import Domain
import LatchkeyModel

/// Sends codes to addresses, and recognises them: see ``CodeRequest`` and ``PresentedCode``.
struct OneTimeCodes: Deciding {
  let mint: CodeMint
  let policy: OneTimeCodePolicy
  let domain: IdentityDomain
  /// Counts those who ask for codes.
  let sends: CallAdmission
  /// Counts the networks that present them to recover, which is open to all.
  let recoverers: NetworkTally
  /// Counts the networks of those who are signed in and present them: nobody who is not keeps them from it.
  let presenters: NetworkTally
  let courier: CodeCourier
  /// Counts those who present them.
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }
}
