import GRPC
import LatchkeyProtos

extension AdminHandlers {
  package func getDocument(
    _ request: IdentityV1.GetDocumentRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetDocumentResponse {
    switch request.document {
    case .policies: IdentityV1.GetDocumentResponse(json: documents.policies.document)
    case .guides: IdentityV1.GetDocumentResponse(json: documents.guides.document)
    case .unspecified, .unrecognized: throw .invalid("document", "must be POLICIES or GUIDES")
    }
  }
}
