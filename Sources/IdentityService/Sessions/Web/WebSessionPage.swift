import Domain
import GRPC
import JSON
import LatchkeyModel
import Storage
import TransportServer

/// `/web-session`: whether the browser's cookie stands for a session that is live now, and whose. For the web servers
/// of an app, which hand the cookie on, and for scripts of the same origin.
package struct WebSessionPage: Surrounded {
  let cookies: WebCookies
  let domain: IdentityDomain
  let endedSessions: EndedSessions
  let surroundings: Surroundings

  package var page: Page {
    Page("GET", "/web-session") { request in
      let now = clock.now()
      let value = request.header("cookie").flatMap { cookies.value(in: $0) }
      if let other = value.map({ cookies.cell(of: $0) }), other != cell {
        return Self.answer(
          401, ["active": false, "reason": "OTHER_CELL", "cell": .integer(Int64(other.number))])
      }
      let found: Found?
      do throws(RPCError) {
        found = try await stored { () throws(StorageError) in try await find(value, at: now) }
      } catch {
        return Self.answer(503, ["active": false])
      }
      guard let found else { return Self.answer(401, ["active": false]) }
      return Self.answer(
        200,
        [
          "active": true,
          "sub": .string(found.session.subject.description),
          "sid": .string(found.session.id.description),
          "is_guest": .bool(found.session.isGuest),
          "name": .string(found.name),
          "expires_in": .integer((found.expiry - now).components.seconds),
        ])
    }
  }

  private struct Found {
    var session: Session
    var name: String
    var expiry: Timestamp
  }

  private func find(_ value: String?, at now: Timestamp) async throws(StorageError) -> Found? {
    guard let value, let (id, expiry) = cookies.recognise(value, at: now), !endedSessions.hasEnded(id),
      let session = try await domain.look(FindSession(id)), session.isLive(at: now),
      let subject = try await domain.look(FindSubject(session.subject)), subject.isUsable
    else { return nil }
    return Found(session: session, name: subject.profile.nickname?.description ?? "", expiry: expiry)
  }

  private static func answer(_ status: Int, _ document: JSONValue) -> PageResponse {
    PageResponse(
      status: status,
      headers: [
        ("content-type", "application/json"), ("cache-control", "no-store"), ("x-content-type-options", "nosniff"),
      ],
      body: document.encoded())
  }
}
