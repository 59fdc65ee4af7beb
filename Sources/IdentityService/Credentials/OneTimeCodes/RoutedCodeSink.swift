import LatchkeyModel
import Storage

/// Sends codes for e-mail addresses one way and codes for phone numbers another.
package struct RoutedCodeSink: CodeSink {
  private let email: any CodeSink
  private let phone: any CodeSink

  package init(email: any CodeSink, phone: any CodeSink) {
    self.email = email
    self.phone = phone
  }

  package func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
    try await sink(for: message.identifier).deliver(message)
  }

  package func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {
    try await sink(for: notice.recipient).deliver(notice)
  }

  private func sink(for identifier: AccountIdentifier) -> any CodeSink {
    switch identifier.kind {
    case .phone: phone
    case .email, .userName, .customID, .oidc: email
    }
  }
}
