import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import TransportServer

/// The rooms of the service: each answers one gRPC service, and has what it is given here.
package struct IdentityRooms: Sendable {
  package let auth: AuthHandlers
  package let guests: GuestHandlers
  package let grants: GrantHandlers
  package let sessions: SessionHandlers
  package let devices: DeviceHandlers
  package let transfers: TransferHandlers
  package let links: LinkHandlers
  package let accounts: AccountHandlers
  package let guides: GuideHandlers
  package let policies: PolicyHandlers
  package let admin: AdminHandlers
  package let audit: AuditHandlers
  package let webSessions: WebSessionPage
  /// What rooms do by themselves.
  package let upkeep: IdentityUpkeep

  package init(_ configuration: IdentityConfiguration, _ resources: IdentityResources) async throws {
    let parts = try await IdentityParts(configuration, resources)
    let (domain, tokens, callers, evidence) = (parts.domain, parts.tokens, parts.callers, parts.evidence)
    let (surroundings, challenges) = (resources.surroundings, parts.evidence.challenges)
    let exempt = configuration.service[CommonKeys.exemptNetworks]
    let instances = InstanceCount(resources.membership)
    auth = AuthHandlers(
      domain: domain,
      methods: LoginMethods(evidence, domain: domain, tokens: tokens), tokens: tokens, callers: callers,
      admission: SignInAdmission(configuration, challenges, parts.replayKey, among: instances),
      migrator: parts.migrator,
      surroundings: surroundings)
    guests = GuestHandlers(
      domain: domain,
      newGuests: NewGuests(
        challenges: challenges,
        admission: GuestAdmission(perHour: configuration.guestsPerHour, exempt: exempt, among: instances),
        room: parts.guestRoom),
      policies: resources.policies,
      export: SubjectExport(
        domain: domain, guides: parts.guides, records: parts.records, surroundings: surroundings),
      removal: parts.removal, tokens: tokens, callers: callers, surroundings: surroundings)
    grants = GrantHandlers(
      domain: domain, endedSessions: parts.endedSessions, notices: parts.notices,
      tokens: tokens, surroundings: surroundings)
    sessions = SessionHandlers(
      domain: domain, sessionEvents: parts.sessionEvents, endedSessions: parts.endedSessions, callers: callers,
      surroundings: surroundings)
    devices = DeviceHandlers(
      domain: domain, challenges: challenges, tokens: tokens, callers: callers, surroundings: surroundings)
    transfers = TransferHandlers(
      transferTries: NetworkTally(Limits.transferTriesPerHour, per: .seconds(3600), exempt: exempt, among: instances),
      domain: domain, challenges: challenges, tokens: tokens, callers: callers, surroundings: surroundings)
    links = LinkHandlers(
      domain: domain, evidence: evidence, reauthentication: parts.reauthentication, notices: parts.notices,
      surroundings: surroundings)
    accounts = AccountHandlers(
      domain: domain, evidence: evidence, reauthentication: parts.reauthentication, removal: parts.removal,
      notices: parts.notices,
      callers: callers, surroundings: surroundings)
    guides = GuideHandlers(
      domain: domain, guides: parts.guides, guideWatches: parts.guideWatches,
      endedSessions: parts.endedSessions, surroundings: surroundings)
    policies = PolicyHandlers(policies: resources.policies, tokens: tokens, surroundings: surroundings)
    admin = AdminHandlers(
      removal: parts.removal, domain: domain,
      documents: AdminHandlers.Documents(
        policies: resources.policies, guides: parts.guides, guideWatches: parts.guideWatches,
        shared: parts.documents),
      tokens: tokens, surroundings: surroundings)
    audit = AuditHandlers(domain: domain, auditChain: parts.auditChain, surroundings: surroundings)
    webSessions = WebSessionPage(
      cookies: tokens.cookies, domain: domain, endedSessions: parts.endedSessions, surroundings: surroundings)
    upkeep = IdentityUpkeep(configuration, parts, surroundings)
  }

  package var routes: [RPCRoute] {
    IdentityV1.guestServiceRoutes(guests)
      + IdentityV1.authServiceRoutes(auth)
      + IdentityV1.grantServiceRoutes(grants)
      + IdentityV1.sessionServiceRoutes(sessions)
      + IdentityV1.deviceServiceRoutes(devices)
      + IdentityV1.transferServiceRoutes(transfers)
      + IdentityV1.linkServiceRoutes(links)
      + IdentityV1.accountServiceRoutes(accounts)
      + IdentityV1.guideServiceRoutes(guides)
      + IdentityV1.policyServiceRoutes(policies)
      + IdentityV1.adminServiceRoutes(admin).map { route in
        var route = route
        if route.method == IdentityV1.AdminServiceMethod.setDocument.rpc {
          route.messageLimit = Limits.documentMessageBytes
        }
        return route
      }
      + IdentityV1.auditServiceRoutes(audit)
  }

  package var pages: [Page] { [JWKSPage.make(auth.tokens.keys), webSessions.page] }

  /// Ends the calls that wait for something to tell.
  package func drain() {
    sessions.sessionEvents.drain()
    sessions.endedSessions.watches.drain()
    guides.guideWatches.drain()
  }
}
