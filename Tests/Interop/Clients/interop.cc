// The public gRPC interoperability cases, run with gRPC C++.
//
//   interop HOST:PORT [AUTHORITY.pem]
//   interop --details HOST:PORT METHOD
//
// Prints one line a case and then "N passed, N failed"; exit status 1 when one failed. With --details it sends METHOD an
// empty message, and prints the code of the error that comes back and the google.rpc details in it, one a line.
// Source of the cases: grpc/grpc doc/interop-test-descriptions.md.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/testing/test.grpc.pb.h"

// What the library has for its own tests of compression, and no header of it declares.
uint32_t grpc_call_test_only_get_message_flags(grpc_call* call);

namespace grpc::testing {
// The name that ClientContext is a friend of.
class InteropClientContextInspector {
 public:
  // Whether the message that was received last came compressed.
  static bool WasCompressed(const ClientContext& context) {
    constexpr uint32_t kWasCompressed = 0x40000000u;
    return (grpc_call_test_only_get_message_flags(context.call_) & kWasCompressed) != 0;
  }
};
}  // namespace grpc::testing

namespace {

using grpc::ClientContext;
using grpc::Status;
using grpc::StatusCode;
using grpc::testing::Empty;
using grpc::testing::SimpleRequest;
using grpc::testing::SimpleResponse;
using grpc::testing::StreamingInputCallRequest;
using grpc::testing::StreamingInputCallResponse;
using grpc::testing::StreamingOutputCallRequest;
using grpc::testing::StreamingOutputCallResponse;
using Stub = grpc::testing::TestService::Stub;

constexpr int kLargeRequest = 271828;
constexpr int kLargeResponse = 314159;
const std::vector<int> kRequestSizes = {27182, 8, 1828, 45904};
const std::vector<int> kResponseSizes = {31415, 9, 2653, 58979};

void Check(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

void CheckStatus(const Status& status, StatusCode code) {
  Check(status.error_code() == code,
        "status " + std::to_string(status.error_code()) + " (" + status.error_message() + ")");
}

void Expire(ClientContext& context, std::chrono::milliseconds after = std::chrono::seconds(20)) {
  context.set_deadline(std::chrono::system_clock::now() + after);
}

SimpleRequest LargeRequest() {
  SimpleRequest request;
  request.set_response_size(kLargeResponse);
  request.mutable_payload()->set_body(std::string(kLargeRequest, '\0'));
  return request;
}

StreamingOutputCallRequest OutputRequest(int size, int body, int interval_us = 0) {
  StreamingOutputCallRequest request;
  auto* parameters = request.add_response_parameters();
  parameters->set_size(size);
  parameters->set_interval_us(interval_us);
  request.mutable_payload()->set_body(std::string(body, '\0'));
  return request;
}

void EmptyUnary(Stub& stub) {
  ClientContext context;
  Expire(context);
  Empty response;
  CheckStatus(stub.EmptyCall(&context, Empty(), &response), StatusCode::OK);
}

void LargeUnary(Stub& stub) {
  ClientContext context;
  Expire(context);
  SimpleResponse response;
  CheckStatus(stub.UnaryCall(&context, LargeRequest(), &response), StatusCode::OK);
  Check(response.payload().body() == std::string(kLargeResponse, '\0'), "payload");
}

void ClientStreaming(Stub& stub) {
  ClientContext context;
  Expire(context);
  StreamingInputCallResponse response;
  auto writer = stub.StreamingInputCall(&context, &response);
  int sum = 0;
  for (int size : kRequestSizes) {
    StreamingInputCallRequest request;
    request.mutable_payload()->set_body(std::string(size, '\0'));
    Check(writer->Write(request), "write");
    sum += size;
  }
  writer->WritesDone();
  CheckStatus(writer->Finish(), StatusCode::OK);
  Check(response.aggregated_payload_size() == sum, "aggregated size");
}

void ServerStreaming(Stub& stub) {
  ClientContext context;
  Expire(context);
  StreamingOutputCallRequest request;
  for (int size : kResponseSizes) request.add_response_parameters()->set_size(size);
  auto reader = stub.StreamingOutputCall(&context, request);
  std::vector<int> sizes;
  StreamingOutputCallResponse response;
  while (reader->Read(&response)) sizes.push_back(response.payload().body().size());
  CheckStatus(reader->Finish(), StatusCode::OK);
  Check(sizes == kResponseSizes, "sizes");
}

void PingPong(Stub& stub) {
  ClientContext context;
  Expire(context);
  auto stream = stub.FullDuplexCall(&context);
  StreamingOutputCallResponse response;
  for (size_t index = 0; index < kResponseSizes.size(); ++index) {
    Check(stream->Write(OutputRequest(kResponseSizes[index], kRequestSizes[index])), "write");
    Check(stream->Read(&response), "read");
    Check(static_cast<int>(response.payload().body().size()) == kResponseSizes[index], "size");
  }
  stream->WritesDone();
  Check(!stream->Read(&response), "a response after the last");
  CheckStatus(stream->Finish(), StatusCode::OK);
}

void HalfDuplex(Stub& stub) {
  ClientContext context;
  Expire(context);
  auto stream = stub.HalfDuplexCall(&context);
  for (int size : kResponseSizes) Check(stream->Write(OutputRequest(size, 0)), "write");
  stream->WritesDone();
  StreamingOutputCallResponse response;
  for (int size : kResponseSizes) {
    Check(stream->Read(&response), "read");
    Check(static_cast<int>(response.payload().body().size()) == size, "size");
  }
  Check(!stream->Read(&response), "a response after the last");
  CheckStatus(stream->Finish(), StatusCode::OK);
}

void EmptyStream(Stub& stub) {
  ClientContext context;
  Expire(context);
  auto stream = stub.FullDuplexCall(&context);
  stream->WritesDone();
  StreamingOutputCallResponse response;
  Check(!stream->Read(&response), "a response");
  CheckStatus(stream->Finish(), StatusCode::OK);
}

void CancelAfterBegin(Stub& stub) {
  ClientContext context;
  Expire(context);
  StreamingInputCallResponse response;
  auto writer = stub.StreamingInputCall(&context, &response);
  context.TryCancel();
  CheckStatus(writer->Finish(), StatusCode::CANCELLED);
}

void CancelAfterFirstResponse(Stub& stub) {
  ClientContext context;
  Expire(context);
  auto stream = stub.FullDuplexCall(&context);
  Check(stream->Write(OutputRequest(31415, 27182)), "write");
  StreamingOutputCallResponse response;
  Check(stream->Read(&response), "read");
  Check(response.payload().body().size() == 31415, "size");
  context.TryCancel();
  CheckStatus(stream->Finish(), StatusCode::CANCELLED);
}

void TimeoutOnSleepingServer(Stub& stub) {
  ClientContext context;
  Expire(context, std::chrono::milliseconds(200));
  auto stream = stub.FullDuplexCall(&context);
  stream->Write(OutputRequest(1, 27182, 30'000'000));
  CheckStatus(stream->Finish(), StatusCode::DEADLINE_EXCEEDED);
}

void EchoStatus(Stub& stub, const std::string& message) {
  SimpleRequest request;
  request.mutable_response_status()->set_code(2);
  request.mutable_response_status()->set_message(message);
  ClientContext context;
  Expire(context);
  SimpleResponse response;
  Status status = stub.UnaryCall(&context, request, &response);
  CheckStatus(status, StatusCode::UNKNOWN);
  Check(status.error_message() == message, "message of the unary call");

  StreamingOutputCallRequest streamed;
  *streamed.mutable_response_status() = request.response_status();
  ClientContext duplex;
  Expire(duplex);
  auto stream = stub.FullDuplexCall(&duplex);
  Check(stream->Write(streamed), "write");
  stream->WritesDone();
  StreamingOutputCallResponse ignored;
  Check(!stream->Read(&ignored), "a response");
  status = stream->Finish();
  CheckStatus(status, StatusCode::UNKNOWN);
  Check(status.error_message() == message, "message of the stream");
}

void StatusCodeAndMessage(Stub& stub) { EchoStatus(stub, "test status message"); }

void SpecialStatusMessage(Stub& stub) {
  EchoStatus(stub, "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608\t\n");
}

void CustomMetadata(Stub& stub) {
  const std::string bytes("\xab\xab\xab");
  auto prepare = [&](ClientContext& context) {
    Expire(context);
    context.AddMetadata("x-grpc-test-echo-initial", "test_initial_metadata_value");
    context.AddMetadata("x-grpc-test-echo-trailing-bin", bytes);
  };
  auto verify = [&](const ClientContext& context) {
    auto& initial = context.GetServerInitialMetadata();
    auto found = initial.find("x-grpc-test-echo-initial");
    Check(found != initial.end() && found->second == "test_initial_metadata_value", "initial metadata");
    auto& trailing = context.GetServerTrailingMetadata();
    found = trailing.find("x-grpc-test-echo-trailing-bin");
    Check(found != trailing.end() && found->second == grpc::string_ref(bytes), "trailing metadata");
  };
  ClientContext unary;
  prepare(unary);
  SimpleResponse response;
  CheckStatus(stub.UnaryCall(&unary, LargeRequest(), &response), StatusCode::OK);
  verify(unary);

  ClientContext duplex;
  prepare(duplex);
  auto stream = stub.FullDuplexCall(&duplex);
  Check(stream->Write(OutputRequest(kLargeResponse, kLargeRequest)), "write");
  stream->WritesDone();
  StreamingOutputCallResponse streamed;
  Check(stream->Read(&streamed), "read");
  Check(static_cast<int>(streamed.payload().body().size()) == kLargeResponse, "size");
  Check(!stream->Read(&streamed), "a response after the first");
  CheckStatus(stream->Finish(), StatusCode::OK);
  verify(duplex);
}

bool WasCompressed(const ClientContext& context) {
  return grpc::testing::InteropClientContextInspector::WasCompressed(context);
}

void ClientCompressedUnary(Stub& stub) {
  // Says that the request is compressed when it is not, then truly each way.
  struct Try {
    bool expected, sent;
    StatusCode status;
  };
  for (auto one : {Try{true, false, StatusCode::INVALID_ARGUMENT}, Try{true, true, StatusCode::OK},
                   Try{false, false, StatusCode::OK}}) {
    ClientContext context;
    Expire(context);
    context.set_compression_algorithm(one.sent ? GRPC_COMPRESS_GZIP : GRPC_COMPRESS_NONE);
    SimpleRequest request = LargeRequest();
    request.mutable_expect_compressed()->set_value(one.expected);
    SimpleResponse response;
    CheckStatus(stub.UnaryCall(&context, request, &response), one.status);
    Check(one.status != StatusCode::OK || response.payload().body() == std::string(kLargeResponse, '\0'), "payload");
  }
}

void ServerCompressedUnary(Stub& stub) {
  for (bool compressed : {true, false}) {
    ClientContext context;
    Expire(context);
    SimpleRequest request = LargeRequest();
    request.mutable_response_compressed()->set_value(compressed);
    SimpleResponse response;
    CheckStatus(stub.UnaryCall(&context, request, &response), StatusCode::OK);
    Check(response.payload().body() == std::string(kLargeResponse, '\0'), "payload");
    Check(WasCompressed(context) == compressed, "whether the response came compressed");
  }
}

void ClientCompressedStreaming(Stub& stub) {
  StreamingInputCallRequest request;
  request.mutable_expect_compressed()->set_value(true);
  request.mutable_payload()->set_body(std::string(27182, '\0'));
  {
    ClientContext context;
    Expire(context);
    StreamingInputCallResponse response;
    auto writer = stub.StreamingInputCall(&context, &response);
    writer->Write(request);
    writer->WritesDone();
    CheckStatus(writer->Finish(), StatusCode::INVALID_ARGUMENT);
  }
  ClientContext context;
  Expire(context);
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  StreamingInputCallResponse response;
  auto writer = stub.StreamingInputCall(&context, &response);
  Check(writer->Write(request), "write");
  request.mutable_expect_compressed()->set_value(false);
  request.mutable_payload()->set_body(std::string(45904, '\0'));
  Check(writer->Write(request, grpc::WriteOptions().set_no_compression()), "write");
  writer->WritesDone();
  CheckStatus(writer->Finish(), StatusCode::OK);
  Check(response.aggregated_payload_size() == 73086, "aggregated size");
}

void ServerCompressedStreaming(Stub& stub) {
  const std::vector<std::pair<int, bool>> expected = {{31415, true}, {92653, false}};
  StreamingOutputCallRequest request;
  for (auto [size, compressed] : expected) {
    auto* parameters = request.add_response_parameters();
    parameters->set_size(size);
    parameters->mutable_compressed()->set_value(compressed);
  }
  ClientContext context;
  Expire(context);
  auto reader = stub.StreamingOutputCall(&context, request);
  StreamingOutputCallResponse response;
  for (auto [size, compressed] : expected) {
    Check(reader->Read(&response), "read");
    Check(static_cast<int>(response.payload().body().size()) == size, "size");
    Check(WasCompressed(context) == compressed, "whether the response came compressed");
  }
  Check(!reader->Read(&response), "a response after the last");
  CheckStatus(reader->Finish(), StatusCode::OK);
}

// How a call of any method ends that is sent an empty message.
Status Ended(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  ClientContext context;
  Expire(context);
  grpc::CompletionQueue queue;
  grpc::ByteBuffer request;
  bool owned;
  grpc::SerializationTraits<Empty>::Serialize(Empty(), &request, &owned);
  auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

void Unimplemented(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  CheckStatus(Ended(channel, method), StatusCode::UNIMPLEMENTED);
}

void PrintDetails(const std::string& target, const std::string& method) {
  Status ended = Ended(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()), method);
  std::cout << "code " << ended.error_code() << std::endl;
  google::rpc::Status status;
  Check(status.ParseFromString(ended.error_details()), "the details are no google.rpc.Status");
  Check(status.code() == ended.error_code() && status.message() == ended.error_message(), "they tell something else");
  for (const auto& detail : status.details()) {
    google::rpc::BadRequest bad;
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) std::cout << "field " << violation.field() << std::endl;
    } else if (detail.UnpackTo(&info)) {
      std::cout << "reason " << info.reason() << std::endl;
    } else {
      std::cout << detail.type_url() << std::endl;
    }
  }
}

std::string Read(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 4 && std::string(arguments[1]) == "--details") {
    PrintDetails(arguments[2], arguments[3]);
    return 0;
  }
  if (count != 2 && count != 3) {
    std::cerr << "usage: interop HOST:PORT [AUTHORITY.pem] | --details HOST:PORT METHOD\n";
    return 2;
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (count == 3) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = Read(arguments[2]);
    credentials = grpc::SslCredentials(options);
  }
  std::cout << "gRPC C++ " << grpc::Version() << std::endl;

  std::shared_ptr<grpc::Channel> channel;
  const std::vector<std::pair<std::string, std::function<void(Stub&)>>> cases = {
      {"empty_unary", EmptyUnary},
      {"large_unary", LargeUnary},
      {"client_streaming", ClientStreaming},
      {"server_streaming", ServerStreaming},
      {"ping_pong", PingPong},
      {"half_duplex", HalfDuplex},
      {"empty_stream", EmptyStream},
      {"cancel_after_begin", CancelAfterBegin},
      {"cancel_after_first_response", CancelAfterFirstResponse},
      {"timeout_on_sleeping_server", TimeoutOnSleepingServer},
      {"status_code_and_message", StatusCodeAndMessage},
      {"special_status_message", SpecialStatusMessage},
      {"custom_metadata", CustomMetadata},
      {"unimplemented_method",
       [&](Stub&) { Unimplemented(channel, "/grpc.testing.TestService/UnimplementedCall"); }},
      {"unimplemented_service",
       [&](Stub&) { Unimplemented(channel, "/grpc.testing.UnimplementedService/UnimplementedCall"); }},
      {"client_compressed_unary", ClientCompressedUnary},
      {"server_compressed_unary", ServerCompressedUnary},
      {"client_compressed_streaming", ClientCompressedStreaming},
      {"server_compressed_streaming", ServerCompressedStreaming},
  };
  int failed = 0;
  for (const auto& [name, run] : cases) {
    // A connection of its own, and a plain call around it: cancel_after_begin would pass without any server.
    grpc::ChannelArguments options;
    options.SetInt("grpc.use_local_subchannel_pool", 1);
    channel = grpc::CreateCustomChannel(arguments[1], credentials, options);
    auto stub = grpc::testing::TestService::NewStub(channel);
    try {
      EmptyUnary(*stub);
      run(*stub);
      EmptyUnary(*stub);
      std::cout << "passed " << name << std::endl;
    } catch (const std::exception& error) {
      ++failed;
      std::cout << "FAILED " << name << ": " << error.what() << std::endl;
    }
  }
  std::cout << cases.size() - failed << " passed, " << failed << " failed" << std::endl;
  return failed == 0 ? 0 : 1;
}
