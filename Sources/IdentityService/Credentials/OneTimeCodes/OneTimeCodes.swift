import LatchkeyModel
import Storage

/// Sends codes to addresses, and recognises them: see ``CodeRequest`` and ``PresentedCode``.
struct OneTimeCodes: Surrounded {
  let mint: CodeMint
  let policy: OneTimeCodePolicy
  let store: any OneTimeCodeStore
  let accounts: any AccountStore
  /// Counts those who ask for codes.
  let sends: CallAdmission
  let courier: CodeCourier
  /// Counts those who present them.
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }
}
