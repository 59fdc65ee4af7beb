import ArgumentParser
import LatchkeyClient

/// Why a command did not do what was asked: what a person reads, what a script reads, and the exit status.
struct CommandFailure: Error, Equatable {
  var status: Status
  var message: String
  /// What to do about it, when we can tell. Commands of ours stand between backticks: `` `login` ``.
  var hint: String?
  /// The gRPC code and reason, and the fields at fault, when a service said so.
  var code: String?
  var reason: String?
  var fields: [CallFailure.Field] = []
  var retryAfter: Duration?

  /// The statuses of sysexits(3), where they fit.
  enum Status: Int32 {
    case refused = 1
    case undecided = 2
    case usage = 64
    case invalid = 65
    case unavailable = 69
    case file = 74
    case notSignedIn = 77
  }

  init(_ status: Status, _ message: String, hint: String? = nil) {
    self.status = status
    self.message = message
    self.hint = hint
  }

  /// The same with its hint's commands as a shell takes them, for the same profile and services.
  func repeating(_ flags: [String]) -> CommandFailure {
    var failure = self
    failure.hint = hint.map { hint in
      let parts = hint.split(separator: "`", omittingEmptySubsequences: false)
      return parts.enumerated().map { index, part in
        index % 2 == 0 ? String(part) : Style.strong(Settings.command(String(part), flags))
      }.joined()
    }
    return failure
  }

  /// An account is signed in, and what was asked for takes a guest.
  static let noGuest = CommandFailure(
    .refused, "an account uses this profile, and there is no guest of this device beside it",
    hint: "`session show` says who is signed in; a guest comes with `logout`, `guest`, and `login ACCOUNT` again")

  static func usage(_ message: String) -> CommandFailure { CommandFailure(.usage, message) }
}

extension CommandFailure {
  init(_ error: ClientError) {
    switch error {
    case .call(let failure):
      self.init(failure)
    case .secretStore(let error):
      self.init(.file, error.description)
    case .unreadableSecret(let name):
      self.init(
        .file,
        "the profile's file \"\(name)\" is damaged",
        hint: "choose another --profile, or remove the file"
      )
    case .signedOut:
      self.init(.notSignedIn, "nobody is signed in on this profile", hint: "`guest`, or `login`")
    case .sessionEnded(let reason):
      self.init(.notSignedIn, "the service has ended this session", hint: "`login`, or `guest`")
      self.reason = reason
    case .overtaken:
      self.init(.refused, "somebody else signed in on this profile meanwhile", hint: "`session show`")
    case .foreignCode:
      self.init(
        .invalid,
        "this is not a sign-in code of this installation",
        hint: "--qr-base says where its codes point"
      )
    case .incompleteAnswer(let what):
      self.init(.refused, "the service's answer lacks \(what)")
    case .tooLong(let field, let limit):
      self.init(.invalid, "\(field): at most \(limit) bytes")
    case .unusableAuthorities(let why):
      self.init(.file, "--tls-ca: \(why)")
    case .deviceKey(let why):
      self.init(.file, "the device key: \(why)")
    }
  }

  private init(_ failure: CallFailure) {
    let status: Status =
      switch failure.code {
      case "INVALID_ARGUMENT", "OUT_OF_RANGE": .invalid
      case "UNAUTHENTICATED", "PERMISSION_DENIED": .notSignedIn
      default: failure.isRetryable ? .unavailable : .refused
      }
    self.init(status, failure.message, hint: Self.hint(failure))
    code = failure.code
    reason = failure.reason
    fields = failure.fields
    retryAfter = failure.retryAfter
  }

  private static func hint(_ failure: CallFailure) -> String? {
    switch (failure.code, failure.reason) {
    case (_, "IDENTITY_IN_USE"): "the account exists: `login ACCOUNT --on-conflict merge`"
    case (_, "LOGIN_REQUIRED"): "guests may not do this: `register ACCOUNT`, or `login ACCOUNT`"
    case (_, "DEVICE_CLONED"):
      "`device resolve-clone transfer` keeps the guest here; split leaves it to the other"
    case (_, "DEVICE_KEY_REQUIRED"): "whoever begins as a guest has a key: `logout`, `guest`, and `login ACCOUNT` again"
    case (_, "STEP_UP_REQUIRED"): "prove that it is you: `session step-up ACCOUNT`"
    case (_, "STALE_PLAN"): "the data has changed since: `migrate plan`"
    case ("UNAVAILABLE", _): "is the service running? `health`"
    default: failure.retryAfter.map { "try again in \(Output.seconds($0))" }
    }
  }
}
