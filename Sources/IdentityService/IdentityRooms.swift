import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Transport

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
    let (stores, tokens, callers, evidence) = (parts.stores, parts.tokens, parts.callers, parts.evidence)
    let (surroundings, challenges) = (resources.surroundings, parts.evidence.challenges)
    let exempt = configuration.service[CommonKeys.exemptNetworks]
    auth = AuthHandlers(
      domain: stores.domain, accounts: stores.accounts,
      methods: LoginMethods(
        evidence, accounts: stores.accounts, unlocks: stores.unlocks, sessions: stores.sessions, links: stores.links,
        tokens: tokens),
      tokens: tokens, callers: callers, admission: SignInAdmission(configuration, challenges, parts.replayKey),
      migrator: parts.migrator, surroundings: surroundings)
    guests = GuestHandlers(
      domain: stores.domain,
      newGuests: NewGuests(
        challenges: challenges, admission: GuestAdmission(perHour: configuration.guestsPerHour, exempt: exempt),
        room: parts.guestRoom),
      policies: resources.policies,
      export: SubjectExport(
        subjects: stores.subjects, sessions: stores.sessions, links: stores.links, devices: stores.devices,
        guides: parts.guides, guideProgress: stores.guides, records: parts.records, surroundings: surroundings),
      removal: parts.removal, tokens: tokens, callers: callers, surroundings: surroundings)
    grants = GrantHandlers(
      domain: stores.domain, qrGrants: stores.qrGrants, merges: stores.merges, links: stores.links,
      endedSessions: parts.endedSessions, guideWatches: parts.guideWatches, tokens: tokens, surroundings: surroundings)
    sessions = SessionHandlers(
      domain: stores.domain, sessions: stores.sessions, sessionEvents: parts.sessionEvents,
      endedSessions: parts.endedSessions, callers: callers, surroundings: surroundings)
    devices = DeviceHandlers(
      domain: stores.domain, devices: stores.devices, sessions: stores.sessions, challenges: challenges, tokens: tokens,
      callers: callers, surroundings: surroundings)
    transfers = TransferHandlers(
      transfers: stores.transfers,
      transferTries: NetworkTally(Limits.transferTriesPerHour, per: .seconds(3600), exempt: exempt),
      links: stores.links, challenges: challenges, tokens: tokens, callers: callers, surroundings: surroundings)
    links = LinkHandlers(
      links: stores.links, unlocks: stores.unlocks, evidence: evidence, reauthentication: parts.reauthentication,
      surroundings: surroundings)
    accounts = AccountHandlers(
      owners: stores.owners, accounts: stores.accounts, evidence: evidence, reauthentication: parts.reauthentication,
      removal: parts.removal,
      notices: OwnerNotices(
        links: stores.links, accounts: stores.accounts, courier: evidence.codes.courier, surroundings: surroundings),
      callers: callers, surroundings: surroundings)
    guides = GuideHandlers(
      guides: parts.guides, guideProgress: stores.guides, guideWatches: parts.guideWatches,
      endedSessions: parts.endedSessions, surroundings: surroundings)
    policies = PolicyHandlers(policies: resources.policies, tokens: tokens, surroundings: surroundings)
    admin = AdminHandlers(
      subjects: stores.subjects, removal: parts.removal, links: stores.links, sessions: stores.sessions,
      audit: stores.audit,
      documents: AdminHandlers.Documents(
        policies: resources.policies, guides: parts.guides, guideWatches: parts.guideWatches),
      tokens: tokens, surroundings: surroundings)
    audit = AuditHandlers(audit: stores.audit, auditChain: parts.auditChain, surroundings: surroundings)
    webSessions = WebSessionPage(
      cookies: tokens.cookies, sessions: stores.sessions, accounts: stores.accounts,
      endedSessions: parts.endedSessions, surroundings: surroundings)
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
