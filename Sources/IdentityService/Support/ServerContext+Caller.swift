import Callers
import Domain
import GRPC
import LatchkeyModel
import ServiceRuntime

extension ServerContext {
  /// The network that the call comes from: an IPv4 address or IPv6 /64, or what stands there if it is no address.
  var source: String {
    switch NetworkAddress(peer.address)?.source {
    case .v4(let address): "4.\(address)"
    case .v6(let network, _): "6.\(network)"
    case nil: peer.address
    }
  }

  /// Who calls with a token, as tries of theirs are counted.
  func requester() throws(RPCError) -> Requester {
    Requester(provenKey: try requireSubject().keyThumbprint, source: source)
  }

  /// The session that a person's call comes from.
  func callerSession() throws(RPCError) -> SessionID {
    guard let session = SessionID(try requireSubject().sessionID) else { throw .tokenInvalid }
    return session
  }

  /// The guest or account that calls.
  func callerSubject() throws(RPCError) -> SubjectID {
    guard let subject = SubjectID(try requireSubject().subject) else { throw .tokenInvalid }
    return subject
  }
}
