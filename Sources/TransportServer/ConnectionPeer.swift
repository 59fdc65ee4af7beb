internal import Callers
internal import GRPC
internal import NIOCore

/// Who opened a connection, and whether its requests may name whom they come from.
struct ConnectionPeer {
  let peer: Peer
  /// The address of a proxy whose requests name their clients; nil for a peer that asks for itself.
  let proxy: NetworkAddress?
  /// What the peer's source holds.
  let account: SourceAccount

  init(_ peer: Peer, proxy: NetworkAddress? = nil, account: SourceAccount = SourceAccount()) {
    self.peer = peer
    self.proxy = proxy
    self.account = account
  }

  /// What the source of a request's client holds.
  func account(of client: Peer, _ budget: ServerBudget) -> SourceAccount {
    proxy == nil || account.isTurnedAway ? account : budget.sources.account(of: NetworkAddress(client.address))
  }

  /// The client of one request.
  func client(of fields: FieldBlock, _ proxies: TrustedProxies) -> Peer {
    guard let proxy, proxies.field != .none else { return peer }
    let name = proxies.field.rawValue
    var values: [String] = []
    fields.forEach { candidate, value in
      if candidate.elementsEqual(name.utf8) { values.append(String(decoding: value, as: UTF8.self)) }
      return true
    }
    return client(namedBy: values, proxy, proxies)
  }

  /// The same for a request over HTTP/1.1.
  func client(of fields: (_ name: String) -> [String], _ proxies: TrustedProxies) -> Peer {
    guard let proxy, proxies.field != .none else { return peer }
    return client(namedBy: fields(proxies.field.rawValue), proxy, proxies)
  }

  private func client(namedBy values: [String], _ proxy: NetworkAddress, _ proxies: TrustedProxies) -> Peer {
    let address = proxies.client(namedBy: values, proxy: proxy)
    return address == proxy ? peer : Peer(address: address.text, port: 0, tlsNames: peer.tlsNames)
  }
}

/// The PROXY protocol has said for whom the connection is: a user event of its channel.
struct ProxyHeaderRead: Sendable {
  /// Nil where the proxy speaks for itself.
  let client: ProxyHeader.Client?
}
