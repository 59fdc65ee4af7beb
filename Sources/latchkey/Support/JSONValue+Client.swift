import Cryptography
import LatchkeyClient

import enum LatchkeyModel.Base64URL

// What scripts read. Names follow the messages of proto/.

extension JSONValue {
  init(_ session: Session) {
    self = [
      "sub": .string(session.subject.rawValue),
      "is_guest": .bool(session.isGuest),
      "sid": .string(session.sessionID),
      "storage_namespace": .string(session.storageNamespace),
      "scope": .string(session.scope),
    ]
  }

  init(_ signIn: SignIn) {
    self = [
      "session": JSONValue(signIn.session),
      "profile": [
        "name": .string(signIn.profile.name),
        "avatar_url": .string(signIn.profile.avatarURL),
        "locale": .string(signIn.profile.locale),
      ],
      "account_change": signIn.change.map { change in
        [
          "previous_sub": change.previousSubject.map { .string($0.rawValue) } ?? .null,
          "promoted": .bool(change.promoted),
          "wipe_required": .bool(change.wipeRequired),
          "migration_id": change.migrationID.map { .string($0) } ?? .null,
          "migration_pending": .bool(change.migrationPending),
        ]
      } ?? .null,
    ]
  }

  init(_ conflict: SignInConflict) {
    self = [
      "conflict": [
        "link_ticket": .string(conflict.linkTicket),
        "existing_mask": .string(conflict.existingMask),
        "guest_rows": .object(conflict.guestRows.map { Member($0.name, .integer($0.count)) }),
        "choices": .array(conflict.choices.map { .string($0.rawValue) }),
        "expires_in_ms": .integer(Output.milliseconds(conflict.expiresIn)),
      ]
    ]
  }

  init(_ offer: QROffer) {
    self = [
      "qr_payload": .string(offer.payload),
      "user_code": .string(offer.userCode),
      "verification_uri": .string(offer.verificationURI),
      "expires_in_ms": .integer(Output.milliseconds(offer.expiresIn)),
      "interval_ms": .integer(Output.milliseconds(offer.interval)),
      "check_code": .string(offer.checkCode),
      "beacon": .string(offer.beacon),
    ]
  }

  init(_ progress: QRProgress) {
    switch progress {
    case .pending: self = ["state": "pending"]
    case .scanned(let mask): self = ["state": "scanned", "scanner_mask": .string(mask)]
    case .agreed(let mask): self = ["state": "agreed", "scanner_mask": .string(mask)]
    case .signedIn(let signIn): self = ["state": "signed-in", "sign_in": JSONValue(signIn)]
    case .confirmed(let confirmation):
      self = [
        "state": "confirmed",
        "confirmation": [
          "jws": .string(confirmation.jws),
          "confirmed_at": confirmation.confirmedAt.map { .string(RFC3339.text($0)) } ?? .null,
          "action_digest": .string(confirmation.actionDigest),
        ],
      ]
    case .denied: self = ["state": "denied"]
    case .expired: self = ["state": "expired"]
    case .cancelled: self = ["state": "cancelled"]
    case .consumed: self = ["state": "consumed"]
    }
  }

  init(_ scan: QRScan) {
    self = [
      "confirm_ticket": .string(scan.confirmTicket),
      "initiator": [
        "label": .string(scan.initiator.label),
        "platform": .string(scan.initiator.platform),
        "app": .string(scan.initiator.app),
      ],
      "purpose": scan.purpose.map { .string($0.rawValue) } ?? .null,
      "client_id": .string(scan.clientID),
      "scope": .string(scan.scope),
      "network": .string(scan.network),
      "is_same_network": .bool(scan.isSameNetwork),
      "distance": .string(scan.distance.rawValue),
      "distance_km": scan.kilometres.map { .integer(Int64($0)) } ?? .null,
      "verdict": .string(scan.verdict.rawValue),
      "signals": .array(scan.signals.map { .string($0) }),
      "needs_check_code": .bool(scan.needsCheckCode),
      "needs_reauth": .bool(scan.needsReauthentication),
      "needs_step_up": .bool(scan.needsStepUp),
      "expires_in_ms": .integer(Output.milliseconds(scan.expiresIn)),
      "action": scan.action.map { action in
        [
          "text": .string(action.text),
          "amount": .string(action.amount),
          "currency": .string(action.currency),
          "reference": .string(action.reference),
        ]
      } ?? .null,
    ]
  }

  init(_ plan: MergePlan) {
    self = [
      "plan_id": .string(plan.id),
      "digest": .string(plan.digest),
      "expires_in_ms": .integer(Output.milliseconds(plan.expiresIn)),
      "collections": .array(
        plan.collections.map { collection in
          [
            "name": .string(collection.name),
            "source_count": .integer(collection.guestRows),
            "target_count": .integer(collection.accountRows),
            "conflicts": .integer(collection.conflicts),
            "policy": collection.policy.map { .string($0.rawValue) } ?? .null,
            "refused": .integer(collection.refused),
          ]
        }
      ),
    ]
  }

  init(_ merge: Merge) {
    self = [
      "migration_id": .string(merge.id),
      "state": .string(merge.state.rawValue),
      "step": .string(merge.step),
      "done": .integer(merge.done),
      "total": .integer(merge.total),
      "failure": .string(merge.failure),
      "created_at": merge.createdAt.map { .string(RFC3339.text($0)) } ?? .null,
      "undo_until": merge.undoUntil.map { .string(RFC3339.text($0)) } ?? .null,
      "report": .array(
        merge.report.map { collection in
          [
            "name": .string(collection.name),
            "policy": collection.policy.map { .string($0.rawValue) } ?? .null,
            "moved": .integer(collection.moved),
            "kept": .integer(collection.kept),
            "replaced": .integer(collection.replaced),
            "summed": .integer(collection.combined),
            "refused": .integer(collection.refused),
            "asked": .integer(collection.asked),
            "target_count": .integer(collection.accountRows),
          ]
        }
      ),
    ]
  }

  /// A value that is not UTF-8 appears as `value_base64url`.
  init(_ record: Record) {
    let text = String(validating: record.value, as: UTF8.self)
    self = .object([
      Member("collection", .string(record.collection)),
      Member("key", .string(record.key)),
      text.map { Member("value", .string($0)) }
        ?? Member("value_base64url", .string(Base64URL.encode(record.value))),
      Member("number", .integer(record.number)),
      Member("updated_at", .string(RFC3339.text(record.updatedAt))),
      Member("revision", .integer(record.revision)),
    ])
  }
}
