// grpc.testing.TestService on gRPC C++, for clients that run the public interoperability cases.
//
//   server [--certificate CHAIN.pem --key KEY.pem]
//
// Prints its port, on loopback, and serves until its input ends. Compresses where it is asked to, and refuses requests
// that say something else about their compression than is so.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "grpc/testing/test.grpc.pb.h"

// What the library has for its own tests of compression, and no header of it declares.
uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace grpc::testing {
// The name that ServerContext is a friend of.
class InteropServerContextInspector {
 public:
  // Whether the message that was received last came compressed.
  static bool WasCompressed(const ServerContextBase& context) {
    constexpr uint32_t kWasCompressed = 0x40000000u;
    return (grpc_call_test_only_get_message_flags(context.call_.call) & kWasCompressed) != 0;
  }
};
}  // namespace grpc::testing

namespace {

using grpc::ServerContext;
using grpc::ServerReader;
using grpc::ServerReaderWriter;
using grpc::ServerWriter;
using grpc::Status;
using grpc::StatusCode;
using grpc::testing::BoolValue;
using grpc::testing::EchoStatus;
using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;

void EchoMetadata(ServerContext* context) {
  const std::string initial = "x-grpc-test-echo-initial", trailing = "x-grpc-test-echo-trailing-bin";
  for (const auto& [key, value] : context->client_metadata()) {
    if (key == initial) context->AddInitialMetadata(initial, {value.data(), value.size()});
    if (key == trailing) context->AddTrailingMetadata(trailing, {value.data(), value.size()});
  }
}

Status Asked(const EchoStatus& status) { return Status(static_cast<StatusCode>(status.code()), status.message()); }

template <typename Request>
bool LiesAboutCompression(ServerContext* context, const Request& request) {
  return request.has_expect_compressed() &&
         request.expect_compressed().value() != grpc::testing::InteropServerContextInspector::WasCompressed(*context);
}

const Status kLie(StatusCode::INVALID_ARGUMENT, "expect_compressed is not so");

// Writes what one request asks for. A wait ends with its call, so that it does not outlive the case.
template <typename Writer>
void Answer(ServerContext* context, const StreamingOutputCallRequest& request, Writer* writer) {
  for (const auto& parameters : request.response_parameters()) {
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(parameters.interval_us());
    while (std::chrono::steady_clock::now() < end) {
      if (context->IsCancelled()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    StreamingOutputCallResponse response;
    response.mutable_payload()->set_body(std::string(parameters.size(), '\0'));
    grpc::WriteOptions options;
    if (!parameters.compressed().value()) options.set_no_compression();
    if (!writer->Write(response, options)) return;
  }
}

class Service final : public grpc::testing::TestService::Service {
  Status EmptyCall(ServerContext* context, const Empty*, Empty*) override {
    EchoMetadata(context);
    return Status::OK;
  }

  Status UnaryCall(ServerContext* context, const SimpleRequest* request, SimpleResponse* response) override {
    EchoMetadata(context);
    if (LiesAboutCompression(context, *request)) return kLie;
    if (request->response_compressed().value()) context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    response->mutable_payload()->set_body(std::string(request->response_size(), '\0'));
    return Asked(request->response_status());
  }

  Status StreamingOutputCall(ServerContext* context, const StreamingOutputCallRequest* request,
                             ServerWriter<StreamingOutputCallResponse>* writer) override {
    EchoMetadata(context);
    for (const auto& parameters : request->response_parameters()) {
      if (parameters.compressed().value()) context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    }
    Answer(context, *request, writer);
    return Asked(request->response_status());
  }

  Status StreamingInputCall(ServerContext* context, ServerReader<StreamingInputCallRequest>* reader,
                            StreamingInputCallResponse* response) override {
    EchoMetadata(context);
    int size = 0;
    StreamingInputCallRequest request;
    while (reader->Read(&request)) {
      if (LiesAboutCompression(context, request)) return kLie;
      size += static_cast<int>(request.payload().body().size());
    }
    response->set_aggregated_payload_size(size);
    return Status::OK;
  }

  using Duplex = ServerReaderWriter<StreamingOutputCallResponse, StreamingOutputCallRequest>;

  Status FullDuplexCall(ServerContext* context, Duplex* stream) override {
    EchoMetadata(context);
    StreamingOutputCallRequest request;
    while (stream->Read(&request)) {
      if (request.response_status().code() != 0) return Asked(request.response_status());
      Answer(context, request, stream);
    }
    return Status::OK;
  }

  Status HalfDuplexCall(ServerContext* context, Duplex* stream) override {
    EchoMetadata(context);
    std::vector<StreamingOutputCallRequest> requests;
    StreamingOutputCallRequest request;
    while (stream->Read(&request)) requests.push_back(request);
    for (const auto& one : requests) Answer(context, one, stream);
    return Status::OK;
  }
};

std::string Read(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** arguments) {
  const bool secure = count == 5 && arguments[1] == std::string("--certificate") && arguments[3] == std::string("--key");
  if (count != 1 && !secure) {
    std::cerr << "usage: server [--certificate CHAIN.pem --key KEY.pem]\n";
    return 2;
  }
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (secure) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({Read(arguments[4]), Read(arguments[2])});
    credentials = grpc::SslServerCredentials(options);
  }
  Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) return 1;
  std::cout << port << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  return 0;
}
