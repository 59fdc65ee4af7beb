// The peer of the poll benchmark: a gRPC C++ server with the callback API that answers every
// PollSession with PENDING. It looks nothing up, so what is measured is gRPC C++ itself.
//
// usage: poll_server PORT [CERTIFICATE.pem KEY.pem]

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "latchkey/qr/v1/qr_session_service.grpc.pb.h"

namespace {

class Service final : public latchkey::qr::v1::QrSessionService::CallbackService {
  grpc::ServerUnaryReactor* PollSession(grpc::CallbackServerContext* context,
                                        const latchkey::qr::v1::PollSessionRequest* request,
                                        latchkey::qr::v1::PollSessionResponse* response) override {
    auto* reactor = context->DefaultReactor();
    if (request->device_code().empty()) {
      reactor->Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "device_code: is empty"));
      return reactor;
    }
    response->set_state(latchkey::qr::v1::SESSION_STATE_PENDING);
    response->set_version(1);
    response->set_interval(5);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

std::string contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2 && count != 4) {
    std::fprintf(stderr, "usage: %s PORT [CERTIFICATE.pem KEY.pem]\n", arguments[0]);
    return 64;
  }
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (count == 4) {
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({contents(arguments[3]), contents(arguments[2])});
    credentials = grpc::SslServerCredentials(options);
  }
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("127.0.0.1:") + arguments[1], credentials);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) {
    std::fprintf(stderr, "cannot listen on port %s\n", arguments[1]);
    return 1;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  server->Wait();
}
