import GRPC
import LatchkeyProtos
import ServiceRuntime

extension AdminHandlers {
  package func setDocument(
    _ request: IdentityV1.SetDocumentRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SetDocumentResponse {
    let bytes = Array(request.json.utf8)
    let name: String
    let problem: String?
    switch request.document {
    case .policies:
      name = "policies"
      let file = core.policies
      problem = await Task.detached { file.replace(bytes)?.description }.value
    case .guides:
      name = "guides"
      let file = core.guides
      problem = await Task.detached { file.replace(bytes)?.description }.value
      if problem == nil { core.guideWatches.definitionsChanged() }
    case .unspecified, .unrecognized: throw .invalid("document", "must be POLICIES or GUIDES")
    }
    if let problem { throw .invalid("json", problem) }
    try await record(try detail("changed the \(name)", reason: request.reason), context)
    return IdentityV1.SetDocumentResponse()
  }
}
