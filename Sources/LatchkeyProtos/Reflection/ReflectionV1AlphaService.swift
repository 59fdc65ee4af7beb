internal import GRPC

/// Server reflection, v1alpha, which older tools still ask for.
struct ReflectionV1AlphaService: ReflectionV1Alpha.ServerReflection {
  let index: ReflectionIndex

  func serverReflectionInfo(
    _ requests: RequestStream<ReflectionV1Alpha.ServerReflectionRequest>,
    responses: ResponseWriter<ReflectionV1Alpha.ServerReflectionResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    for try await request in requests {
      let answer = index.answer(question(request))
      try await responses.write(
        ReflectionV1Alpha.ServerReflectionResponse(
          validHost: request.host, originalRequest: request, messageResponse: response(answer)))
    }
  }

  private func question(_ request: ReflectionV1Alpha.ServerReflectionRequest) -> ReflectionIndex.Question {
    switch request.messageRequest {
    case .fileByFilename(let name): .file(name)
    case .fileContainingSymbol(let symbol): .symbol(symbol)
    case .fileContainingExtension, .allExtensionNumbersOfType: .extensions
    case .listServices: .services
    case nil: .none
    }
  }

  private func response(_ answer: ReflectionIndex.Answer) -> ReflectionV1Alpha.ServerReflectionResponse.MessageResponse
  {
    switch answer {
    case .files(let files):
      .fileDescriptorResponse(ReflectionV1Alpha.FileDescriptorResponse(fileDescriptorProto: files))
    case .services(let names):
      .listServicesResponse(
        ReflectionV1Alpha.ListServiceResponse(service: names.map { ReflectionV1Alpha.ServiceResponse(name: $0) }))
    case .failure(let code, let message):
      .errorResponse(ReflectionV1Alpha.ErrorResponse(errorCode: Int32(code.rawValue), errorMessage: message))
    }
  }
}
