import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import LoadTest
import Synchronization
import TransportClient

/// Fresh accounts, the phones of the test. Their access tokens are renewed while the test runs.
final class LoadAccounts: Sendable {
  private struct Account {
    var access: String
    var refresh: String
    var renewal: ContinuousClock.Instant
  }

  private let service: IdentityV1.AuthServiceClient
  private let accounts = Mutex<[Account]>([])

  init(_ channel: ClientChannel) {
    service = IdentityV1.AuthServiceClient(channel: channel)
  }

  /// The access token of one of them.
  func token(_ number: Int) -> String {
    accounts.withLock { $0.isEmpty ? "" : $0[number % $0.count].access }
  }

  func register(_ count: Int, clientID: String) async throws(CommandFailure) {
    for number in 0..<count {
      let name = "load-\(Base64URL.encode(SecureRandom.bytes(12)))@load.example".lowercased()
      let password = Base64URL.encode(SecureRandom.bytes(18))
      let request = IdentityV1.RegisterRequest(
        clientID: clientID,
        password: IdentityV1.PasswordCredential(identifier: name, password: password)
      )
      do throws(RPCError) {
        let answer = try await service.register(request, options: CallOptions(timeout: .seconds(30)))
        guard let tokens = answer.tokens else { throw RPCError(.dataLoss, "the answer has no tokens") }
        accounts.withLock { $0.append(Self.account(tokens)) }
      } catch {
        throw CommandFailure(
          .unavailable, "account \(number + 1) of \(count) cannot be registered: \(error.message)")
      }
    }
  }

  /// Renews what is due, until cancelled. A refused renewal is an error of the run, and is tried again.
  func keepFresh(_ ledger: LoadLedger) async {
    while (try? await Task.sleep(for: .seconds(1))) != nil {
      let due = accounts.withLock { accounts in accounts.indices.filter { accounts[$0].renewal <= .now } }
      for index in due {
        let request = IdentityV1.RefreshRequest(refreshToken: accounts.withLock { $0[index].refresh })
        do throws(RPCError) {
          let answer = try await service.refresh(request, options: CallOptions(timeout: .seconds(10)))
          guard let tokens = answer.tokens else { throw RPCError(.dataLoss, "the answer has no tokens") }
          accounts.withLock { $0[index] = Self.account(tokens) }
          ledger.note { $0.noted("access tokens renewed") }
        } catch {
          guard !Task.isCancelled else { return }
          let now = ledger.now
          ledger.note { $0.failed("refresh: \(error.code.name): \(error.message)", at: now) }
        }
      }
    }
  }

  /// Renewed when two thirds of its time are over.
  private static func account(_ tokens: CommonV1.TokenSet) -> Account {
    let life = Duration.seconds(tokens.expiresIn)
    return Account(access: tokens.accessToken, refresh: tokens.refreshToken, renewal: .now + life * 2 / 3)
  }
}
