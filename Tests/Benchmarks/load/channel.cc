#include "channel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace load {

void fail(const std::string& why) {
  std::fprintf(stderr, "load: %s\n", why.c_str());
  std::exit(1);
}

Connection::Connection(int epoll, const std::string& host, uint16_t port, SSL_CTX* tls)
    : epoll_(epoll), authority_(host + ":" + std::to_string(port)), scheme_(tls ? "https" : "http") {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) fail(std::string("socket: ") + std::strerror(errno));
  int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) fail(host + " is no IPv4 address");
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) < 0 && errno != EINPROGRESS) {
    fail(std::string("connect: ") + std::strerror(errno));
  }
  if (tls) {
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, socket_);
    SSL_set_connect_state(ssl_);
  }

  nghttp2_session_callbacks* callbacks;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_send_callback(callbacks, on_send);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 1);

  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT;
  event.data.ptr = this;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, socket_, &event);
}

Connection::~Connection() {
  nghttp2_session_del(session_);
  if (ssl_) SSL_free(ssl_);
  close(socket_);
}

void Connection::call(const std::string& path, const std::string& message, Done done, const std::string& authorization) {
  Stream stream;
  const auto length = static_cast<uint32_t>(message.size());
  stream.request = {0, char(length >> 24), char(length >> 16), char(length >> 8), char(length)};
  stream.request += message;
  stream.done = std::move(done);
  auto field = [](const char* name, const std::string& value) {
    return nghttp2_nv{reinterpret_cast<uint8_t*>(const_cast<char*>(name)),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), std::strlen(name), value.size(),
                      NGHTTP2_NV_FLAG_NO_COPY_NAME};
  };
  const std::string post = "POST", scheme = scheme_, type = "application/grpc", trailers = "trailers";
  nghttp2_nv headers[] = {field(":method", post),        field(":scheme", scheme),     field(":path", path),
                          field(":authority", authority_), field("content-type", type), field("te", trailers),
                          field("authorization", authorization)};
  nghttp2_data_provider provider{};
  provider.read_callback = on_read_request;
  int32_t id = nghttp2_submit_request(session_, nullptr, headers, authorization.empty() ? 6 : 7, &provider, nullptr);
  if (id < 0) fail(std::string("submit: ") + nghttp2_strerror(id));
  streams_.emplace(id, std::move(stream));
}

bool Connection::shake_hands() {
  if (!connected_) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) fail(std::string("connect: ") + std::strerror(error));
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (getpeername(socket_, reinterpret_cast<sockaddr*>(&peer), &size) < 0) return false;
    connected_ = true;
  }
  if (ssl_ && !ready_) {
    int status = SSL_do_handshake(ssl_);
    if (status != 1) {
      int error = SSL_get_error(ssl_, status);
      if (error == SSL_ERROR_WANT_READ) {
        watch(false);
        return false;
      }
      if (error == SSL_ERROR_WANT_WRITE) return false;
      fail("the TLS handshake failed");
    }
  }
  ready_ = true;
  return true;
}

void Connection::work() {
  if (!ready_ && !shake_hands()) return;
  // An answer may lead to the next call: written before waiting again.
  while (read_some()) {
  }
  write_some();
}

bool Connection::read_some() {
  uint8_t buffer[65536];
  ssize_t count;
  if (ssl_) {
    count = SSL_read(ssl_, buffer, sizeof buffer);
    if (count <= 0) {
      if (SSL_get_error(ssl_, static_cast<int>(count)) == SSL_ERROR_WANT_READ) return false;
      fail("the server closed a connection");
    }
  } else {
    count = recv(socket_, buffer, sizeof buffer, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) fail("the server closed a connection");
  }
  ssize_t taken = nghttp2_session_mem_recv(session_, buffer, static_cast<size_t>(count));
  if (taken < 0) fail(std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(taken)));
  // A short read found the socket empty: asking again would only be told so.
  return ssl_ || count == ssize_t(sizeof buffer);
}

ssize_t Connection::on_send(nghttp2_session*, const uint8_t* data, size_t length, int, void* self) {
  static_cast<Connection*>(self)->out_.append(reinterpret_cast<const char*>(data), length);
  return static_cast<ssize_t>(length);
}

bool Connection::write_some() {
  if (int error = nghttp2_session_send(session_)) fail(std::string("HTTP/2: ") + nghttp2_strerror(error));
  while (out_sent_ < out_.size()) {
    ssize_t count;
    if (ssl_) {
      count = SSL_write(ssl_, out_.data() + out_sent_, static_cast<int>(out_.size() - out_sent_));
      if (count <= 0) {
        if (SSL_get_error(ssl_, static_cast<int>(count)) == SSL_ERROR_WANT_WRITE) break;
        fail("the server closed a connection");
      }
    } else {
      count = send(socket_, out_.data() + out_sent_, out_.size() - out_sent_, MSG_NOSIGNAL);
      if (count < 0) {
        if (errno == EAGAIN || errno == EINTR) break;
        fail(std::string("send: ") + std::strerror(errno));
      }
    }
    out_sent_ += static_cast<size_t>(count);
  }
  const bool all = out_sent_ == out_.size();
  if (all) {
    out_.clear();
    out_sent_ = 0;
  }
  watch(!all);
  return all;
}

void Connection::watch(bool writable) {
  if (writable == watching_writable_) return;
  watching_writable_ = writable;
  epoll_event event{};
  event.events = EPOLLIN;
  if (writable) event.events |= EPOLLOUT;
  event.data.ptr = this;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_, &event);
}

int Connection::on_header(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_length,
                          const uint8_t* value, size_t value_length, uint8_t, void* self) {
  auto& streams = static_cast<Connection*>(self)->streams_;
  auto stream = streams.find(frame->hd.stream_id);
  if (stream == streams.end()) return 0;
  const std::string key(reinterpret_cast<const char*>(name), name_length);
  const std::string text(reinterpret_cast<const char*>(value), value_length);
  if (key == ":status") stream->second.answer.http_status = text;
  if (key == "grpc-status") stream->second.answer.status = std::atoi(text.c_str());
  if (key == "grpc-message") stream->second.answer.reason = text;
  return 0;
}

int Connection::on_data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t length, void* self) {
  auto& streams = static_cast<Connection*>(self)->streams_;
  auto stream = streams.find(id);
  if (stream != streams.end()) stream->second.body.append(reinterpret_cast<const char*>(data), length);
  return 0;
}

int Connection::on_close(nghttp2_session*, int32_t id, uint32_t, void* self) {
  auto& streams = static_cast<Connection*>(self)->streams_;
  auto node = streams.extract(id);
  if (node.empty()) return 0;
  Stream& stream = node.mapped();
  if (stream.body.size() >= 5) stream.answer.message = stream.body.substr(5);
  stream.done(stream.answer);
  return 0;
}

ssize_t Connection::on_read_request(nghttp2_session*, int32_t id, uint8_t* buffer, size_t length, uint32_t* flags,
                                    nghttp2_data_source*, void* self) {
  auto& stream = static_cast<Connection*>(self)->streams_.at(id);
  const size_t count = std::min(length, stream.request.size() - stream.sent);
  std::memcpy(buffer, stream.request.data() + stream.sent, count);
  stream.sent += count;
  if (stream.sent == stream.request.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(count);
}

Pool::Pool(const std::string& host, uint16_t port, bool tls) : host_(host), port_(port) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (!tls) return;
  tls_ = SSL_CTX_new(TLS_client_method());
  static const unsigned char protocols[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(tls_, protocols, sizeof protocols);
  SSL_CTX_set_mode(tls_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
}

Pool::~Pool() {
  connections_.clear();
  if (tls_) SSL_CTX_free(tls_);
  close(epoll_);
}

void Pool::open(int connections) {
  const int at_once = 64;
  for (int opened = 0; opened < connections;) {
    const size_t first = connections_.size();
    for (int i = 0; i < at_once && opened < connections; ++i, ++opened) {
      connections_.push_back(std::make_unique<Connection>(epoll_, host_, port_, tls_));
    }
    run([&] {
      for (size_t i = first; i < connections_.size(); ++i) {
        if (!connections_[i]->is_ready()) return false;
      }
      return true;
    });
  }
}

void Pool::turn() {
  epoll_event events[256];
  const int count = epoll_wait(epoll_, events, 256, 100);
  for (int i = 0; i < count; ++i) static_cast<Connection*>(events[i].data.ptr)->work();
}

void Pool::run(const std::function<bool()>& over) {
  while (!over()) turn();
}

}  // namespace load
