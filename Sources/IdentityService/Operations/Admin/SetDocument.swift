import GRPC
import LatchkeyProtos
import ServiceRuntime
import Storage

extension AdminHandlers {
  package func setDocument(
    _ request: IdentityV1.SetDocumentRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.SetDocumentResponse {
    let bytes = Array(request.json.utf8)
    let isPolicies: Bool
    switch request.document {
    case .policies: isPolicies = true
    case .guides: isPolicies = false
    case .unspecified, .unrecognized: throw .invalid("document", "must be POLICIES or GUIDES")
    }
    // Before anything changes: what is refused has not happened.
    let detail = try detail("changed the \(isPolicies ? "policies" : "guides")", reason: request.reason)
    let problem: String?
    if let shared = documents.shared {
      // On record with the change, whether its commit is answered or not.
      problem = try await stored { () throws(StorageError) in
        try await shared.put(bytes, as: isPolicies ? .policies : .guides, noting: note(detail, context))
      }
      // This instance does not wait for its next look.
      if problem == nil { try? await shared.look() }
    } else if isPolicies {
      let file = documents.policies
      problem = await Task.detached { file.replace(bytes)?.description }.value
    } else {
      let file = documents.guides
      problem = await Task.detached { file.replace(bytes)?.description }.value
      if problem == nil { documents.guideWatches.definitionsChanged() }
    }
    if let problem { throw .invalid("json", problem) }
    if documents.shared == nil { try await record(detail, context) }
    return IdentityV1.SetDocumentResponse()
  }
}
