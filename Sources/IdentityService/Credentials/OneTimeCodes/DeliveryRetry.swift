import Transfers

/// Tries a delivery a few times, as far as another try may help.
enum DeliveryRetry {
  static func run(_ attempt: () async throws(TransferError) -> Void) async throws(CodeDeliveryError) {
    var pauses = Limits.deliveryPauses[...]
    while true {
      do throws(TransferError) {
        return try await attempt()
      } catch {
        guard error.isRetryable, let pause = pauses.popFirst() else {
          throw CodeDeliveryError(error.description, isChannelWide: error.fault == .server)
        }
        do {
          try await Task.sleep(for: pause)
        } catch {
          throw CodeDeliveryError("the service is stopping")
        }
      }
    }
  }
}
