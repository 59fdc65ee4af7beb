import Glibc
import LatchkeyClient

/// Asks whoever sits at the terminal to prove again who they are.
enum ProofPrompt {
  /// Nil when nobody is there, or nothing was typed.
  static func ask(_ request: ProofRequest) -> SignInCredential? {
    guard isatty(STDIN_FILENO) == 1, request.proofs.contains("password") else { return nil }
    Output.warn("This changes who gets in, so prove that it is you.\nAccount:")
    guard let identifier = readLine(), !identifier.isEmpty else { return nil }
    Output.warn("Password:")
    guard let password = try? SilentTerminal.line(), !password.isEmpty else { return nil }
    return .password(identifier: identifier, password: password)
  }
}
