import Storage

/// What rooms are made of.
extension IdentityCore {
  var callers: CallerChecks {
    CallerChecks(proofs: proofs, tokens: tokens, stepUp: stepUp, surroundings: surroundings)
  }

  var evidence: Evidence {
    let secrets = SecretChecks(attempts: attempts, passwords: passwords, surroundings: surroundings)
    return Evidence(
      secrets: secrets,
      codes: OneTimeCodes(
        mint: codes, policy: codePolicy, store: oneTimeCodes, accounts: accounts, sends: codeSends, courier: courier,
        secrets: secrets),
      idTokens: IDTokenChecks(challenges: challenges, providers: providers, surroundings: surroundings),
      challenges: challenges,
      codesRequired: codesRequired
    )
  }

  var methods: LoginMethods {
    LoginMethods(
      evidence, accounts: accounts, unlocks: unlocks, sessions: sessions, links: links, tokens: tokens)
  }

  var removal: SubjectRemoval { SubjectRemoval(subjects: subjects, purger: purger, surroundings: surroundings) }

  var guideRoom: GuideHandlers {
    GuideHandlers(
      guides: guides, guideProgress: guideProgress, guideWatches: guideWatches, endedSessions: endedSessions,
      surroundings: surroundings)
  }

  var policyRoom: PolicyHandlers { PolicyHandlers(policies: policies, tokens: tokens, surroundings: surroundings) }

  var auditRoom: AuditHandlers { AuditHandlers(audit: audit, auditChain: auditChain, surroundings: surroundings) }

  var adminRoom: AdminHandlers {
    AdminHandlers(
      subjects: subjects, removal: removal, links: links, sessions: sessions, audit: audit,
      documents: AdminHandlers.Documents(policies: policies, guides: guides, guideWatches: guideWatches),
      tokens: tokens, surroundings: surroundings)
  }

  var sessionRoom: SessionHandlers {
    SessionHandlers(
      sessions: sessions, sessionEvents: sessionEvents, endedSessions: endedSessions, callers: callers,
      surroundings: surroundings)
  }

  var deviceRoom: DeviceHandlers {
    DeviceHandlers(
      devices: devices, sessions: sessions, challenges: challenges, tokens: tokens, callers: callers,
      surroundings: surroundings)
  }

  var transferRoom: TransferHandlers {
    TransferHandlers(
      transfers: transfers, transferTries: transferTries, links: links, challenges: challenges, tokens: tokens,
      callers: callers, surroundings: surroundings)
  }

  var grantRoom: GrantHandlers {
    GrantHandlers(
      qrGrants: qrGrants, merges: merges, links: links, sessions: sessions, endedSessions: endedSessions,
      guideWatches: guideWatches, tokens: tokens, surroundings: surroundings)
  }

  var webSessionPage: WebSessionPage {
    WebSessionPage(
      cookies: webCookies, sessions: sessions, accounts: accounts, endedSessions: endedSessions,
      surroundings: surroundings)
  }

  var guestHandlers: GuestHandlers {
    GuestHandlers(
      guests: guests, newGuests: NewGuests(challenges: challenges, admission: admission, room: guestRoom),
      policies: policies,
      export: SubjectExport(
        subjects: subjects, sessions: sessions, links: links, devices: devices, guides: guides,
        guideProgress: guideProgress, records: recordKeeper, surroundings: surroundings),
      removal: removal, tokens: tokens, callers: callers, surroundings: surroundings)
  }

  var reauthentication: Reauthentication {
    Reauthentication(links: links, sessions: sessions, secrets: evidence.secrets)
  }

  var linkRoom: LinkHandlers {
    LinkHandlers(
      links: links, unlocks: unlocks, evidence: evidence, reauthentication: reauthentication,
      surroundings: surroundings)
  }

  var accountRoom: AccountHandlers {
    AccountHandlers(
      owners: owners, accounts: accounts, evidence: evidence, reauthentication: reauthentication, removal: removal,
      notices: OwnerNotices(links: links, accounts: accounts, courier: courier, surroundings: surroundings),
      callers: callers, surroundings: surroundings)
  }
}
