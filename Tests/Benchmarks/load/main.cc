// Loads that h2load cannot make, since every request differs: guests with keys and proofs of their own, refresh
// chains, sign-ins, polls of many codes, and connections that idle. Every answer's grpc-status and content is checked.
//
// usage: load MODE --to HOST:PORT [--tls] [--connections C] [--streams S] [--requests N] [--log FILE] …
//
//   guests    N devices with fresh keys: GetChallenge and IssueGuest; writes their refresh tokens to --out
//   returning N starts of known devices: the same two calls, by device numbers below --devices drawn at random
//   refresh   N refreshes by the sessions of --in, each with the newest token of its session; writes them to --out
//   passwords N sign-ins by password as user-<number>@example.com, numbers below --devices drawn at random
//   issue     N QR sessions; writes their device codes to --out
//   poll      N polls of the device codes in --in, drawn at random
//   scan      N QR sessions issued and scanned by who has --authorization; writes their tickets and check codes to --out
//   confirm   N confirmations of the tickets in --in by the same
//   idle      C connections that made S calls each, at once; says "ready", and ends when standard input does
//   keys      prints the public keys of devices 0 to N-1: key thumbprint, x, y, a line each; needs no server
//
// A line of the log is, as h2load's: start in microseconds since the epoch, HTTP status, microseconds to the answer.

#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/obj_mac.h>
#include <openssl/sha.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "channel.h"
#include "latchkey/identity/v1/auth_service.pb.h"
#include "latchkey/identity/v1/guest_service.pb.h"
#include "latchkey/qr/v1/qr_session_service.pb.h"

namespace {

using load::Answer;
using load::Connection;
using load::fail;

const std::string kClient = "latchkey-demo";

struct Options {
  std::string mode, host, log, in, out, authorization;
  uint16_t port = 0;
  bool tls = false;
  int connections = 1, streams = 1;
  long requests = 1, devices = 1;
};

Options parse(int count, char** arguments) {
  Options options;
  if (count < 2) fail("usage: load MODE --to HOST:PORT …; see main.cc");
  options.mode = arguments[1];
  for (int i = 2; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--tls") {
      options.tls = true;
      continue;
    }
    if (i + 1 == count) fail(name + " needs a value");
    const std::string value = arguments[++i];
    if (name == "--to") {
      const auto colon = value.find(':');
      if (colon == std::string::npos) fail("--to is HOST:PORT");
      options.host = value.substr(0, colon);
      options.port = static_cast<uint16_t>(std::stoi(value.substr(colon + 1)));
    } else if (name == "--connections") {
      options.connections = std::stoi(value);
    } else if (name == "--streams") {
      options.streams = std::stoi(value);
    } else if (name == "--requests") {
      options.requests = std::stol(value);
    } else if (name == "--devices") {
      options.devices = std::stol(value);
    } else if (name == "--log") {
      options.log = value;
    } else if (name == "--authorization") {
      options.authorization = value;
    } else if (name == "--in") {
      options.in = value;
    } else if (name == "--out") {
      options.out = value;
    } else {
      fail("no option " + name);
    }
  }
  return options;
}

int64_t microseconds() {
  using namespace std::chrono;
  return duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count();
}

std::string base64url(const unsigned char* bytes, size_t count) {
  static const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  for (size_t i = 0; i < count; i += 3) {
    const size_t left = std::min<size_t>(3, count - i);
    uint32_t group = bytes[i] << 16;
    if (left > 1) group |= bytes[i + 1] << 8;
    if (left > 2) group |= bytes[i + 2];
    for (size_t j = 0; j <= left; ++j) text += digits[group >> (18 - 6 * j) & 63];
  }
  return text;
}

// A device: its key, and what it says of itself. Device `number` has the same key in every run of the same `series`.
class Device {
 public:
  Device(const std::string& series, long number) : id_(series + "-device-number-" + std::to_string(number)) {
    unsigned char secret[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(id_.data()), id_.size(), secret);
    secret[0] = 0;  // Below the order of the group, and not zero for any input met here.
    key_ = EC_KEY_new();
    EC_KEY_set_group(key_, group());
    BIGNUM* scalar = BN_bin2bn(secret, sizeof secret, nullptr);
    EC_POINT* point = EC_POINT_new(group());
    EC_POINT_mul(group(), point, scalar, nullptr, nullptr, nullptr);
    EC_KEY_set_private_key(key_, scalar);
    EC_KEY_set_public_key(key_, point);
    unsigned char encoded[65];
    EC_POINT_point2oct(group(), point, POINT_CONVERSION_UNCOMPRESSED, encoded, sizeof encoded, nullptr);
    x_ = base64url(encoded + 1, 32);
    y_ = base64url(encoded + 33, 32);
    EC_POINT_free(point);
    BN_free(scalar);
  }
  ~Device() { EC_KEY_free(key_); }
  Device(const Device&) = delete;

  const std::string& id() const { return id_; }
  const std::string& x() const { return x_; }
  const std::string& y() const { return y_; }

  void describe(latchkey::common::v1::EcPublicJwk* jwk) const {
    jwk->set_kty("EC");
    jwk->set_crv("P-256");
    jwk->set_x(x_);
    jwk->set_y(y_);
  }

  // RFC 7638.
  std::string thumbprint() const {
    const std::string json = R"({"crv":"P-256","kty":"EC","x":")" + x_ + R"(","y":")" + y_ + "\"}";
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(json.data()), json.size(), hash);
    return base64url(hash, sizeof hash);
  }

  // 64 bytes, r then s.
  std::string sign(const std::string& message) const {
    unsigned char hash[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(message.data()), message.size(), hash);
    ECDSA_SIG* signature = ECDSA_do_sign(hash, sizeof hash, key_);
    unsigned char raw[64];
    BN_bn2binpad(ECDSA_SIG_get0_r(signature), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(signature), raw + 32, 32);
    ECDSA_SIG_free(signature);
    return std::string(reinterpret_cast<char*>(raw), sizeof raw);
  }

 private:
  static EC_GROUP* group() {
    static EC_GROUP* const curve = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    return curve;
  }

  std::string id_, x_, y_;
  EC_KEY* key_;
};

std::string text_of(const google::protobuf::MessageLite& message) { return message.SerializeAsString(); }

template <typename Message>
Message parse(const Answer& answer, const char* method) {
  if (answer.http_status != "200" || answer.status != 0) {
    fail(std::string(method) + " was answered with HTTP " + answer.http_status + ", grpc-status " +
         std::to_string(answer.status) + ": " + answer.reason);
  }
  Message message;
  if (!message.ParseFromString(answer.message)) fail(std::string(method) + ": the answer does not parse");
  return message;
}

std::vector<std::string> lines(const std::string& path) {
  std::vector<std::string> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) found.push_back(line);
  if (found.empty()) fail("nothing in " + path);
  return found;
}

// Callers that each do one thing after another, until as many are done as were asked for.
class Run {
 public:
  explicit Run(const Options& options)
      : options_(options), pool_(options.host, options.port, options.tls), left_(options.requests),
        random_(std::random_device{}()) {
    if (!options.log.empty()) log_ = std::fopen(options.log.c_str(), "w");
    if (!options.out.empty()) out_.open(options.out);
  }
  ~Run() {
    if (log_) std::fclose(log_);
  }

  // `one` does one piece of work for a caller and then calls what it is given.
  using Work = std::function<void(Connection&, size_t caller, std::function<void()> done)>;

  void all(const Work& one) {
    pool_.open(options_.connections);
    const long callers = long(options_.connections) * options_.streams;
    for (long caller = 0; caller < callers && caller < options_.requests; ++caller) {
      next(one, pool_.at(size_t(caller % options_.connections)), size_t(caller));
    }
    // What was submitted above is sent by each connection when it is looked at first.
    for (size_t i = 0; i < pool_.size(); ++i) pool_.at(i).work();
    pool_.run([this] { return done_ == options_.requests; });
  }

  long random(long below) { return std::uniform_int_distribution<long>(0, below - 1)(random_); }
  std::ofstream& out() { return out_; }
  load::Pool& pool() { return pool_; }

 private:
  void next(const Work& one, Connection& connection, size_t caller) {
    if (left_ == 0) return;
    --left_;
    const int64_t began = microseconds();
    one(connection, caller, [this, &one, &connection, caller, began] {
      if (log_) std::fprintf(log_, "%ld\t200\t%ld\n", long(began), long(microseconds() - began));
      ++done_;
      next(one, connection, caller);
    });
  }

  const Options& options_;
  load::Pool pool_;
  long left_;
  long done_ = 0;
  std::FILE* log_ = nullptr;
  std::ofstream out_;
  std::mt19937_64 random_;
};

const char* kGetChallenge = "/latchkey.identity.v1.GuestService/GetChallenge";
const char* kIssueGuest = "/latchkey.identity.v1.GuestService/IssueGuest";
const char* kAuthenticate = "/latchkey.identity.v1.AuthService/Authenticate";
const char* kRefresh = "/latchkey.identity.v1.AuthService/Refresh";
const char* kIssueSession = "/latchkey.qr.v1.QrSessionService/IssueSession";
const char* kScanSession = "/latchkey.qr.v1.QrSessionService/ScanSession";
const char* kConfirmSession = "/latchkey.qr.v1.QrSessionService/ConfirmSession";
const char* kPollSession = "/latchkey.qr.v1.QrSessionService/PollSession";

// Proves a device's key and starts as its guest.
void start_as_guest(Connection& connection, const std::shared_ptr<Device>& device, bool expect_created,
                    const std::function<void(const latchkey::identity::v1::IssueGuestResponse&)>& done) {
  latchkey::identity::v1::GetChallengeRequest ask;
  ask.set_client_id(kClient);
  device->describe(ask.mutable_device_key());
  connection.call(kGetChallenge, text_of(ask), [=, &connection](const Answer& answer) {
    const auto challenge = parse<latchkey::identity::v1::GetChallengeResponse>(answer, "GetChallenge");
    if (challenge.pow_bits() != 0) fail("GetChallenge asks for work");
    latchkey::identity::v1::IssueGuestRequest request;
    request.set_client_id(kClient);
    request.mutable_device()->set_device_id(device->id());
    device->describe(request.mutable_device()->mutable_public_key());
    request.mutable_device()->set_label("Ada's phone");
    request.mutable_device()->set_platform("bench");
    request.mutable_device()->set_app_version("1.0");
    request.set_challenge(challenge.challenge());
    const std::string zero(1, '\0');
    request.set_proof(device->sign("latchkey-device-proof-v1" + zero + kClient + zero + device->id() + zero +
                                   challenge.challenge()));
    connection.call(kIssueGuest, text_of(request), [=](const Answer& answer) {
      const auto guest = parse<latchkey::identity::v1::IssueGuestResponse>(answer, "IssueGuest");
      if (guest.created() != expect_created) fail(expect_created ? "a guest is not new" : "a guest is new");
      if (guest.tokens().access_token().empty()) fail("IssueGuest brought no token");
      done(guest);
    });
  });
}

void guests(const Options& options) {
  // Keys of this run only, made before anything is measured.
  const std::string series = "run-" + std::to_string(microseconds());
  std::vector<std::shared_ptr<Device>> devices;
  for (long i = 0; i < options.requests; ++i) devices.push_back(std::make_shared<Device>(series, i));
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    auto device = std::move(devices.back());
    devices.pop_back();
    start_as_guest(connection, device, true, [&run, done](const auto& guest) {
      if (run.out().is_open()) run.out() << guest.tokens().refresh_token() << "\n";
      done();
    });
  });
}

void returning(const Options& options) {
  Run run(options);
  std::vector<std::shared_ptr<Device>> devices;
  for (long i = 0; i < options.requests; ++i) {
    devices.push_back(std::make_shared<Device>("known", run.random(options.devices)));
  }
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    auto device = std::move(devices.back());
    devices.pop_back();
    start_as_guest(connection, device, false, [done](const auto&) { done(); });
  });
}

void refresh(const Options& options) {
  auto tokens = lines(options.in);
  const size_t callers = size_t(options.connections) * size_t(options.streams);
  if (tokens.size() < callers) fail("fewer sessions than callers");
  // Each caller goes round its own part of the sessions.
  std::vector<size_t> turns(callers, 0);
  Run run(options);
  run.all([&](Connection& connection, size_t caller, std::function<void()> done) {
    const size_t share = tokens.size() / callers;
    std::string& token = tokens[caller + callers * (turns[caller]++ % share)];
    latchkey::identity::v1::RefreshRequest request;
    request.set_refresh_token(token);
    connection.call(kRefresh, text_of(request), [&token, done](const Answer& answer) {
      const auto fresh = parse<latchkey::identity::v1::RefreshResponse>(answer, "Refresh");
      if (fresh.tokens().refresh_token() == token) fail("Refresh did not rotate");
      token = fresh.tokens().refresh_token();
      done();
    });
  });
  for (const auto& token : tokens) run.out() << token << "\n";
}

void passwords(const Options& options) {
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    latchkey::identity::v1::AuthenticateRequest request;
    request.set_client_id(kClient);
    request.mutable_password()->set_identifier("user-" + std::to_string(run.random(options.devices)) + "@example.com");
    request.mutable_password()->set_password("correct horse battery staple");
    connection.call(kAuthenticate, text_of(request), [done](const Answer& answer) {
      const auto signed_in = parse<latchkey::identity::v1::AuthenticateResponse>(answer, "Authenticate");
      if (signed_in.tokens().access_token().empty()) fail("Authenticate brought no token");
      done();
    });
  });
}

std::string issue_request() {
  latchkey::qr::v1::IssueSessionRequest request;
  request.set_client_id(kClient);
  request.set_purpose(latchkey::qr::v1::PURPOSE_LOGIN);
  request.set_code_challenge("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");  // RFC 7636 appendix B.
  request.set_code_challenge_method("S256");
  request.mutable_initiator()->set_label("bench");
  return text_of(request);
}

void issue(const Options& options) {
  const std::string message = issue_request();
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    connection.call(kIssueSession, message, [&run, done](const Answer& answer) {
      run.out() << parse<latchkey::qr::v1::IssueSessionResponse>(answer, "IssueSession").device_code() << "\n";
      done();
    });
  });
}

void scan(const Options& options) {
  const std::string message = issue_request();
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    connection.call(kIssueSession, message, [&, done](const Answer& answer) {
      const auto code = parse<latchkey::qr::v1::IssueSessionResponse>(answer, "IssueSession");
      latchkey::qr::v1::ScanSessionRequest request;
      request.set_qr_payload(code.qr_payload());
      const std::string digits = code.check_code();
      connection.call(kScanSession, text_of(request), [&run, digits, done](const Answer& answer) {
        const auto scanned = parse<latchkey::qr::v1::ScanSessionResponse>(answer, "ScanSession");
        run.out() << scanned.confirm_ticket() << " " << (scanned.needs_check_code() ? digits : "") << "\n";
        done();
      }, options.authorization);
    });
  });
}

void confirm(const Options& options) {
  auto tickets = lines(options.in);
  if (tickets.size() < size_t(options.requests)) fail("fewer tickets than requests");
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    const std::string line = std::move(tickets.back());
    tickets.pop_back();
    const size_t space = line.find(' ');
    latchkey::qr::v1::ConfirmSessionRequest request;
    request.set_confirm_ticket(line.substr(0, space));
    request.set_check_code(line.substr(space + 1));
    connection.call(kConfirmSession, text_of(request), [done](const Answer& answer) {
      parse<latchkey::qr::v1::ConfirmSessionResponse>(answer, "ConfirmSession");
      done();
    }, options.authorization);
  });
}

void poll(const Options& options) {
  const auto codes = lines(options.in);
  Run run(options);
  run.all([&](Connection& connection, size_t, std::function<void()> done) {
    latchkey::qr::v1::PollSessionRequest request;
    request.set_device_code(codes[size_t(run.random(long(codes.size())))]);
    connection.call(kPollSession, text_of(request), [done](const Answer& answer) {
      const auto polled = parse<latchkey::qr::v1::PollSessionResponse>(answer, "PollSession");
      if (polled.state() != latchkey::qr::v1::SESSION_STATE_PENDING) fail("a session is not pending");
      done();
    });
  });
}

void idle(const Options& options) {
  load::Pool pool(options.host, options.port, options.tls);
  pool.open(options.connections);
  long answered = 0;
  for (size_t i = 0; i < pool.size(); ++i) {
    // Any answer will do: an empty request to gRPC servers, an unknown file to others.
    for (int stream = 0; stream < options.streams; ++stream) {
      pool.at(i).call(kPollSession, "", [&answered](const Answer& answer) {
        if (answer.http_status.empty()) fail("a connection was not answered");
        ++answered;
      });
    }
    pool.at(i).work();
  }
  pool.run([&] { return answered == long(pool.size()) * options.streams; });
  std::puts("ready");
  std::fflush(stdout);
  char end;
  while (read(STDIN_FILENO, &end, 1) > 0) {
  }
}

void keys(const Options& options) {
  for (long i = 0; i < options.requests; ++i) {
    const Device device("known", i);
    std::printf("%s %s %s %s\n", device.thumbprint().c_str(), device.x().c_str(), device.y().c_str(),
                device.id().c_str());
  }
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = parse(count, arguments);
  const std::map<std::string, void (*)(const Options&)> modes = {
      {"guests", guests}, {"returning", returning}, {"refresh", refresh}, {"passwords", passwords},
      {"issue", issue},   {"scan", scan},           {"confirm", confirm}, {"poll", poll},
      {"idle", idle},     {"keys", keys}};
  const auto mode = modes.find(options.mode);
  if (mode == modes.end()) fail("no mode " + options.mode);
  mode->second(options);
  return 0;
}
