// HTTP/2 connections that speak gRPC, for a load in one thread: non-blocking sockets under epoll, libnghttp2, and
// OpenSSL for TLS.

#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace load {

// Ends the program with a message: a load that cannot go on has measured nothing.
[[noreturn]] void fail(const std::string& why);

// What came back: the HTTP and the gRPC status, and the message without its prefix.
struct Answer {
  std::string http_status;
  int status = -1;
  std::string message;
  std::string reason;
};

using Done = std::function<void(const Answer&)>;

// One connection. `call` may be used as soon as it is made; what it asks for is sent once the connection stands.
class Connection {
 public:
  Connection(int epoll, const std::string& host, uint16_t port, SSL_CTX* tls);
  ~Connection();
  Connection(const Connection&) = delete;

  void call(const std::string& path, const std::string& message, Done done, const std::string& authorization = "");
  // Reads and writes what can be without waiting.
  void work();
  bool is_ready() const { return ready_; }

 private:
  struct Stream {
    std::string request;
    size_t sent = 0;
    std::string body;
    Answer answer;
    Done done;
  };

  bool shake_hands();
  bool read_some();
  bool write_some();
  void watch(bool writable);

  static ssize_t on_send(nghttp2_session*, const uint8_t* data, size_t length, int, void* self);
  static int on_header(nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_length,
                       const uint8_t* value, size_t value_length, uint8_t, void* self);
  static int on_data(nghttp2_session*, uint8_t, int32_t stream, const uint8_t* data, size_t length, void* self);
  static int on_close(nghttp2_session*, int32_t stream, uint32_t code, void* self);
  static ssize_t on_read_request(nghttp2_session*, int32_t stream, uint8_t* buffer, size_t length, uint32_t* flags,
                                 nghttp2_data_source* source, void* self);

  int epoll_;
  int socket_;
  SSL* ssl_ = nullptr;
  nghttp2_session* session_ = nullptr;
  std::string authority_;
  const char* scheme_;
  bool connected_ = false;
  bool ready_ = false;
  bool watching_writable_ = true;
  std::string out_;
  size_t out_sent_ = 0;
  std::map<int32_t, Stream> streams_;
};

// Connections and the loop that drives them.
class Pool {
 public:
  // `tls`: whether to use it. The server's certificate is not looked at: what is measured is the server.
  Pool(const std::string& host, uint16_t port, bool tls);
  ~Pool();

  // Opens connections, a few at a time so that no listen queue overflows, and returns when all of them stand.
  void open(int connections);
  Connection& at(size_t index) { return *connections_[index]; }
  size_t size() const { return connections_.size(); }
  // Drives the connections until `over` says so.
  void run(const std::function<bool()>& over);

 private:
  void turn();

  std::string host_;
  uint16_t port_;
  int epoll_;
  SSL_CTX* tls_ = nullptr;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace load
