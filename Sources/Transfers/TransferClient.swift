import Cryptography

/// Talks to servers that are not ours, by HTTPS and SMTP, on threads of its own: libcurl waits for answers, which an
/// event loop must never do. Call ``stop()`` when done.
///
/// Redirects are not followed: where a request goes is decided by the configuration, not by whoever answers.
package final class TransferClient: Sendable {
  private let workers: WorkerThreads
  private let timeout: Duration

  package init(threads: Int = Limits.threads, queue: Int = Limits.queue, timeout: Duration = Limits.timeout) {
    precondition(CurlTransfer.isReady, "libcurl cannot be set up")
    workers = WorkerThreads(threads: threads, capacity: queue)
    self.timeout = timeout
  }

  deinit {
    workers.stop()
  }

  /// Any status is an answer; an error is none.
  package func send(_ request: HTTPRequest) async throws(TransferError) -> HTTPResponse {
    try await run { [timeout] () throws(TransferError) in
      let transfer = try CurlTransfer(timeout: timeout)
      return try transfer.perform(request)
    }
  }

  /// Returns once the server has taken the mail on.
  package func send(_ mail: MailSubmission) async throws(TransferError) {
    try await run { [timeout] () throws(TransferError) in
      let transfer = try CurlTransfer(timeout: timeout)
      try transfer.perform(mail)
    }
  }

  /// Ends the threads once what is queued is done.
  package func stop() {
    workers.stop()
  }

  private func run<Value: Sendable>(
    _ work: @escaping @Sendable () throws(TransferError) -> Value
  ) async throws(TransferError) -> Value {
    let result: Result<Value, TransferError> = await withCheckedContinuation { continuation in
      let submission = workers.submit {
        do throws(TransferError) {
          continuation.resume(returning: .success(try work()))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
      switch submission {
      case .accepted: break
      case .full:
        continuation.resume(
          returning: .failure(TransferError("too many transfers wait", isRetryable: true, fault: .content)))
      case .stopped:
        continuation.resume(returning: .failure(TransferError("transfers have stopped", isRetryable: false)))
      }
    }
    return try result.get()
  }
}
