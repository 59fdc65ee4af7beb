import LatchkeyProtos
import ServiceRuntime

/// Who may call which method of the identity service, and what their token must be good for. A new method does not
/// compile without its line here.
package enum IdentityAccess {
  /// What changes who gets in asks for the owner, and for a proof of theirs that is no older than a few minutes (R46).
  package static let ownersWord = AccessRequirement(.account, .recentProof, .confirmed)

  package static let policies =
    AccessPolicies(IdentityV1.GuestServiceMethod.self) { method in
      switch method {
      case .getChallenge, .issueGuest: .open
      case .exportGuest, .deleteGuest: .subject(.account, .recentProof, .confirmed)
      }
    }
    + AccessPolicies(IdentityV1.AuthServiceMethod.self) { method in
      switch method {
      case .checkIdentifier, .sendOtp, .register, .authenticate, .refresh, .revoke, .getJwks: .open
      case .introspect: .subject(nil).orService
      case .stepUp: .subject(nil)
      case .logout: .subject(nil).and(ownersWord, when: "`scope` is OTHERS or GLOBAL")
      case .createWebSession: .subject(.basic)
      }
    }
    + AccessPolicies(IdentityV1.GrantServiceMethod.self) { method in
      switch method {
      case .issueForQr, .signConfirmation, .revokeForQr, .describeSubject: .services([.qr])
      case .completeMigration, .failMigration, .restoreGuest: .services([.migrator])
      case .watchRevocations: .services([.qr, .migrator])
      }
    }
    + AccessPolicies(IdentityV1.SessionServiceMethod.self) { method in
      switch method {
      case .listSessions, .watchSessionEvents: .subject(.profile)
      case .revokeSession: .subject(nil).and(ownersWord, when: "`sid` is not the caller's own")
      case .revokeOtherSessions, .confirmSession: .subject(.account, .recentProof, .confirmed)
      }
    }
    + AccessPolicies(IdentityV1.DeviceServiceMethod.self) { method in
      switch method {
      case .listDevices: .subject(.profile)
      case .renameDevice: .subject(.account)
      case .removeDevice: .subject(.account, .recentProof, .confirmed)
      case .rotateDeviceKey: .subject(.basic)
      // Who is refused as cloned has no session: both keys sign instead.
      case .resolveClone: .open
      }
    }
    + AccessPolicies(IdentityV1.TransferServiceMethod.self) { method in
      switch method {
      case .createTransfer: .subject(.account, .recentProof, .confirmed)
      case .cancelTransfer: .subject(.account)
      case .inspectTransfer, .redeemTransfer: .open
      }
    }
    + AccessPolicies(IdentityV1.GuideServiceMethod.self) { method in
      switch method {
      case .listGuides, .getGuide, .reportStep, .watchGuide: .subject(.basic)
      case .resetGuide: .subject(.basic).orService
      }
    }
    + AccessPolicies(IdentityV1.LinkServiceMethod.self) { method in
      switch method {
      case .listIdentities: .account(.profile)
      case .linkIdentity, .unlinkIdentity: .account(.account, .recentProof, .confirmed)
      }
    }
    + AccessPolicies(IdentityV1.AccountServiceMethod.self) { method in
      switch method {
      case .getProfile: .account(.profile)
      case .updateProfile: .account(.account)
      case .verifyIdentifier: .account(.account, .confirmed)
      case .setPassword, .changePassword, .removePassword, .deleteAccount: .account(.account, .recentProof, .confirmed)
      // Who forgot the password has no session.
      case .startRecovery, .finishRecovery: .open
      }
    }
    + AccessPolicies(IdentityV1.PolicyServiceMethod.self) { method in
      switch method {
      case .getUpdatePolicy, .getGatePolicy, .checkAccess: .open
      }
    }
    + AccessPolicies(IdentityV1.AdminServiceMethod.self) { method in
      switch method {
      case .getSubject, .disableSubject, .enableSubject, .deleteSubject, .endSessions, .rotateSigningKey, .getDocument,
        .setDocument:
        .service
      }
    }
    + AccessPolicies(IdentityV1.AuditServiceMethod.self) { method in
      switch method {
      case .listAuditEvents, .verifyAuditLog: .service
      }
    }
}
