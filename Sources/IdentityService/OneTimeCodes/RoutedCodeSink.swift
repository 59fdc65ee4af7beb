/// Sends codes for e-mail addresses one way and codes for phone numbers another.
package struct RoutedCodeSink: CodeSink {
  private let email: any CodeSink
  private let phone: any CodeSink

  package init(email: any CodeSink, phone: any CodeSink) {
    self.email = email
    self.phone = phone
  }

  package func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    switch message.identifier.kind {
    case .phone: try await phone.deliver(message)
    case .email, .userName, .customID, .oidc: try await email.deliver(message)
    }
  }
}
