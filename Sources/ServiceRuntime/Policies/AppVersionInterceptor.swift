package import GRPC
internal import LatchkeyModel
internal import LatchkeyProtos

/// Refuses calls of apps that are too old, in every service, before anything else is looked at.
///
/// An app says its version in the metadata `x-app-version`, alone or as `client_id/version`. Calls without it, such as
/// those between services, pass.
package struct AppVersionInterceptor: ServerInterceptor {
  package static let field: StaticString = "x-app-version"

  private let policies: PolicyFile

  /// Methods that answer every version: an app learns there that it is too old.
  private static let exempt = Set(
    HealthV1.HealthMethod.allCases.map(\.rawValue) + ReflectionV1.ServerReflectionMethod.allCases.map(\.rawValue)
      + ReflectionV1Alpha.ServerReflectionMethod.allCases.map(\.rawValue)
      + [IdentityV1.PolicyServiceMethod.getUpdatePolicy.rawValue])

  package init(policies: PolicyFile) {
    self.policies = policies
  }

  package func directCalls(_ context: ServerContext) -> DirectCallVerdict {
    // Nothing here depends on anything but the metadata and the policies.
    let revision = policies.revision
    do throws(RPCError) {
      try willHandle(context)
    } catch {
      return .look
    }
    return .pass { [policies] in policies.revision == revision }
  }

  package func willHandle(_ context: ServerContext) throws(RPCError) {
    guard let policies = policies.currentWithMinimum, let text = context.firstValue(Self.field),
      !Self.exempt.contains(context.method.path)
    else { return }
    let parts = text.split(separator: "/", maxSplits: 1).map(String.init)
    guard let last = parts.last, let version = AppVersion(last) else {
      throw .invalid(Self.field.description, "must be a version such as 2.1.0, or client_id/version")
    }
    let client = parts.count == 2 ? ClientID(parts[0]) : nil
    guard let update = policies.update(of: client), let minimum = update.minimum, version < minimum else { return }
    throw RPCError(
      .failedPrecondition,
      "version \(version) of the app is no longer served; update it to \(minimum) or later",
      reason: "UPGRADE_REQUIRED",
      info: [RPCError.KeyValue("min_version", minimum.description), RPCError.KeyValue("update_url", update.url)]
    )
  }
}
