import LatchkeyProtos
import ServiceRuntime

/// Who may call which method of the identity service. A new method does not compile without its line here.
package enum IdentityAccess {
  package static let policies =
    AccessPolicies(IdentityV1.GuestServiceMethod.self) { method in
      switch method {
      case .getChallenge, .issueGuest: .open
      case .exportGuest, .deleteGuest: .subject
      }
    }
    + AccessPolicies(IdentityV1.AuthServiceMethod.self) { method in
      switch method {
      case .checkIdentifier, .sendOtp, .register, .authenticate, .refresh, .revoke, .getJwks: .open
      case .introspect: .subjectOrService
      case .logout, .createWebSession: .subject
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
      case .listSessions, .revokeSession, .revokeOtherSessions, .confirmSession, .watchSessionEvents: .subject
      }
    }
    + AccessPolicies(IdentityV1.DeviceServiceMethod.self) { method in
      switch method {
      case .listDevices, .renameDevice, .removeDevice, .rotateDeviceKey: .subject
      // Who is refused as cloned has no session: both keys sign instead.
      case .resolveClone: .open
      }
    }
    + AccessPolicies(IdentityV1.TransferServiceMethod.self) { method in
      switch method {
      case .createTransfer, .cancelTransfer: .subject
      case .inspectTransfer, .redeemTransfer: .open
      }
    }
    + AccessPolicies(IdentityV1.GuideServiceMethod.self) { method in
      switch method {
      case .listGuides, .getGuide, .reportStep, .watchGuide: .subject
      case .resetGuide: .subjectOrService
      }
    }
    + AccessPolicies(IdentityV1.LinkServiceMethod.self) { method in
      switch method {
      case .listIdentities, .linkIdentity, .unlinkIdentity: .account
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
