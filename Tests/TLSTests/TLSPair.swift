import NIOCore
import TLS

/// A client and a server session joined in memory.
struct TLSPair {
  let client: TLSSession
  let server: TLSSession
  /// What each side has decrypted so far.
  var atClient = ByteBuffer()
  var atServer = ByteBuffer()
  var clientError: TLSError?
  var serverError: TLSError?

  init(client: TLSClientContext, server: TLSServerContext, host: String = "localhost") throws {
    self.client = try TLSSession(client: client, host: host)
    self.server = try TLSSession(server: server)
  }

  /// Hands bytes over until both sides are silent. Errors end a side and are kept.
  mutating func exchange() {
    if clientError == nil, !client.isHandshakeFinished {
      do throws(TLSError) { try client.start() } catch { clientError = error }
    }
    while true {
      let toServer = client.takeOutput()
      let toClient = server.takeOutput()
      if toServer == nil, toClient == nil { return }
      if let toServer, serverError == nil {
        do throws(TLSError) { _ = try server.receive(toServer, into: &atServer) } catch { serverError = error }
      }
      if let toClient, clientError == nil {
        do throws(TLSError) { _ = try client.receive(toClient, into: &atClient) } catch { clientError = error }
      }
    }
  }
}
