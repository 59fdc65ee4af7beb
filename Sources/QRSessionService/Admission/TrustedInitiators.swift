import Callers
import LatchkeyModel
import ServiceRuntime

/// Which devices may ask for codes in a client's name, for clients that run on known devices only, such as tills (S12).
///
/// A client that no entry names asks from anywhere. One that entries name by networks asks from these only; by keys, for
/// these only; by both, both have to fit.
package struct TrustedInitiators: Sendable, Equatable {
  /// `client=network`, `client=address` or `client=key`, the last by its RFC 7638 thumbprint; `*` stands for the clients
  /// that have no entries of their own.
  package struct Entry: Sendable, Equatable {
    enum Trusted: Sendable, Equatable {
      case network(NetworkRange)
      case key(String)
    }

    let client: ClientID?
    let trusted: Trusted

    /// Nil for anything that is no entry.
    package init?(_ text: String) {
      let sides = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard sides.count == 2 else { return nil }
      if sides[0] == "*" {
        client = nil
      } else {
        guard let named = ClientID(String(sides[0])) else { return nil }
        client = named
      }
      if let range = NetworkRange(sides[1]) ?? NetworkAddress(String(sides[1])).map({ NetworkRange($0) }) {
        trusted = .network(range)
      } else if Base64URL.decode(sides[1])?.count == 32 {
        trusted = .key(String(sides[1]))
      } else {
        return nil
      }
    }
  }

  package enum Refusal: Sendable, Equatable {
    case device
    case network
  }

  private struct List: Sendable, Equatable {
    var networks: [NetworkRange] = []
    var keys: Set<String> = []
  }

  private var own: [ClientID: List] = [:]
  private var others: List?

  package init(_ entries: [Entry] = []) {
    for entry in entries {
      var list = entry.client.map { own[$0] ?? List() } ?? others ?? List()
      switch entry.trusted {
      case .network(let range): list.networks.append(range)
      case .key(let thumbprint): list.keys.insert(thumbprint)
      }
      if let client = entry.client { own[client] = list } else { others = list }
    }
  }

  /// Why a device gets no code; nil when it does.
  package func refusal(client: ClientID, keyThumbprint: String?, address: String) -> Refusal? {
    guard let list = own[client] ?? others else { return nil }
    if !list.networks.isEmpty {
      guard let address = NetworkAddress(address), list.networks.contains(where: { $0.contains(address) }) else {
        return .network
      }
    }
    guard !list.keys.isEmpty else { return nil }
    return keyThumbprint.map(list.keys.contains) == true ? nil : .device
  }

  /// Whether the client's devices are known by their keys: then whoever collects has to sign with it, because a
  /// thumbprint is no secret.
  package func needsKey(_ client: ClientID) -> Bool {
    (own[client] ?? others)?.keys.isEmpty == false
  }
}
