internal import GRPC

/// Server reflection, v1.
struct ReflectionV1Service: ReflectionV1.ServerReflection {
  let index: ReflectionIndex

  func serverReflectionInfo(
    _ requests: RequestStream<ReflectionV1.ServerReflectionRequest>,
    responses: ResponseWriter<ReflectionV1.ServerReflectionResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    for try await request in requests {
      let answer = index.answer(question(request))
      try await responses.write(
        ReflectionV1.ServerReflectionResponse(
          validHost: request.host, originalRequest: request, messageResponse: response(answer)))
    }
  }

  private func question(_ request: ReflectionV1.ServerReflectionRequest) -> ReflectionIndex.Question {
    switch request.messageRequest {
    case .fileByFilename(let name): .file(name)
    case .fileContainingSymbol(let symbol): .symbol(symbol)
    case .fileContainingExtension, .allExtensionNumbersOfType: .extensions
    case .listServices: .services
    case nil: .none
    }
  }

  private func response(_ answer: ReflectionIndex.Answer) -> ReflectionV1.ServerReflectionResponse.MessageResponse {
    switch answer {
    case .files(let files):
      .fileDescriptorResponse(ReflectionV1.FileDescriptorResponse(fileDescriptorProto: files))
    case .services(let names):
      .listServicesResponse(
        ReflectionV1.ListServiceResponse(service: names.map { ReflectionV1.ServiceResponse(name: $0) }))
    case .failure(let code, let message):
      .errorResponse(ReflectionV1.ErrorResponse(errorCode: Int32(code.rawValue), errorMessage: message))
    }
  }
}
