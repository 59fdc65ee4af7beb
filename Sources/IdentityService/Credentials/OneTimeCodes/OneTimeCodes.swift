import Domain
import LatchkeyModel

/// Sends codes to addresses, and recognises them: see ``CodeRequest`` and ``PresentedCode``.
struct OneTimeCodes: Deciding {
  let mint: CodeMint
  let policy: OneTimeCodePolicy
  let domain: IdentityDomain
  /// Counts those who ask for codes.
  let sends: CallAdmission
  let courier: CodeCourier
  /// Counts those who present them.
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }
}
