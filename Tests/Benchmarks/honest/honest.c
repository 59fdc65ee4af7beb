// honest PORT SECONDS RATE [AUTHORITY]: a client that checks a server's health RATE times a second on one connection,
// with TLS if the certificate of an authority is named. One line for each call: when it was due and how long it took,
// both in nanoseconds.
//
// The calls are due at fixed times whatever became of those before (an open loop), and a call's time counts from then:
// what the server or this machine does to the client is in the numbers, however it comes about.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Fewer than the server lets a connection have; calls that are due wait while so many are open.
enum { OPEN = 90, FIELDS = 6 };

static const char *const fields[FIELDS][2] = {
    {":method", "POST"},         {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Check"},
    {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"},
};
// HealthCheckResponse as a gRPC message, but for the status, which is one byte.
static const unsigned char health[] = {0, 0, 0, 0, 2, 8};

static int descriptor;
static SSL *tls;
static unsigned char received[1 << 17];
static size_t receivedCount;

_Noreturn static void fail(const char *why) {
  fprintf(stderr, "honest: %s\n", why);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void put(const void *bytes, size_t count) {
  // A few hundred bytes: a socket that has no room for them has a server behind it that has not read for seconds.
  ssize_t written = tls ? SSL_write(tls, bytes, (int)count) : write(descriptor, bytes, count);
  if (written != (ssize_t)count) fail("the server takes no more");
}

static size_t frame(unsigned char *out, size_t length, int kind, int flags, uint32_t stream) {
  const unsigned char header[9] = {length >> 16, length >> 8, length, kind, flags, stream >> 24, stream >> 16,
                                   stream >> 8, stream};
  memcpy(out, header, sizeof header);
  return sizeof header;
}

// The whole request for the stream.
static void call(uint32_t stream) {
  unsigned char out[512];
  size_t end = 9;
  for (int index = 0; index < FIELDS; index++) {
    // RFC 7541 §6.2.3, without Huffman coding.
    out[end++] = 0x10;
    for (int part = 0; part < 2; part++) {
      const size_t length = strlen(fields[index][part]);
      out[end++] = (unsigned char)length;
      memcpy(out + end, fields[index][part], length);
      end += length;
    }
  }
  frame(out, end - 9, 1, 4, stream);
  end += frame(out + end, 5, 0, 1, stream);
  memset(out + end, 0, 5);
  put(out, end + 5);
}

// Takes what the socket has. False when that was nothing.
static int fill(void) {
  const size_t room = sizeof received - receivedCount;
  ssize_t count = tls ? SSL_read(tls, received + receivedCount, (int)room)
                      : read(descriptor, received + receivedCount, room);
  if (count > 0) {
    receivedCount += (size_t)count;
    return 1;
  }
  if (tls ? SSL_get_error(tls, (int)count) == SSL_ERROR_WANT_READ : count < 0 && errno == EAGAIN) return 0;
  fail("the server has closed the connection");
}

static void begin(int port, const char *authority) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  descriptor = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("cannot connect");
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (authority) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\2h2", 3);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_locations(context, authority, NULL) != 1) fail("cannot read the authority");
    tls = SSL_new(context);
    SSL_set_fd(tls, descriptor);
    if (SSL_set1_host(tls, "localhost") != 1 || SSL_connect(tls) != 1) fail("no handshake");
  }
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  unsigned char out[64] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  size_t end = 24;
  end += frame(out + end, 0, 4, 0, 0);
  // All the window that there is, so that no update has to be sent.
  end += frame(out + end, 4, 8, 0, 0);
  memcpy(out + end, "\x7f\xfe\0\0", 4);
  put(out, end + 4);
}

int main(int count, char **arguments) {
  if (count < 4) fail("usage: honest PORT SECONDS RATE [AUTHORITY]");
  begin(atoi(arguments[1]), count > 4 ? arguments[4] : NULL);
  const double seconds = atof(arguments[2]), rate = atof(arguments[3]);
  const int64_t total = (int64_t)(seconds * rate), interval = (int64_t)(1e9 / rate);
  int64_t *times = calloc((size_t)total, sizeof *times);
  if (!times) fail("no memory");
  const int64_t start = now() + 20 * interval;
  int64_t sent = 0, done = 0;
  while (done < total) {
    const int64_t wait = sent < total && sent - done < OPEN ? start + sent * interval - now() : 10000000000;
    if (wait <= 0) {
      call((uint32_t)(2 * sent + 1));
      sent++;
      continue;
    }
    struct pollfd file = {.fd = descriptor, .events = POLLIN};
    const struct timespec time = {wait / 1000000000, wait % 1000000000};
    const int ready = ppoll(&file, 1, &time, NULL);
    if (ready < 0) fail("cannot wait");
    if (ready == 0 && wait >= 10000000000) fail("no answer within ten seconds");
    if (ready == 0) continue;
    while (fill()) {
      size_t index = 0;
      while (receivedCount - index >= 9) {
        const unsigned char *header = received + index, *payload = header + 9;
        const size_t length = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
        if (receivedCount - index - 9 < length) break;
        index += 9 + length;
        const uint32_t stream =
            (uint32_t)header[5] << 24 | (uint32_t)header[6] << 16 | (uint32_t)header[7] << 8 | header[8];
        const int isEnd = header[4] & 1;
        unsigned char out[17];
        switch (header[3]) {
          case 0:
            if (length != sizeof health + 1 || memcmp(payload, health, sizeof health)) fail("not the answer");
            break;
          case 1:
            // The trailers follow the answer.
            if (!isEnd) break;
            if (stream / 2 >= sent) fail("an answer to no call");
            times[stream / 2] = now() - (start + stream / 2 * interval);
            done++;
            break;
          case 3: fail("a call was reset");
          case 4:
            if (!isEnd) put(out, frame(out, 0, 4, 1, 0));
            break;
          case 6:
            if (isEnd || length != 8) break;
            frame(out, 8, 6, 1, 0);
            memcpy(out + 9, payload, 8);
            put(out, sizeof out);
            break;
          case 7: fail("the server says goodbye");
        }
      }
      memmove(received, received + index, receivedCount -= index);
    }
  }
  for (int64_t index = 0; index < total; index++) {
    printf("%lld %lld\n", (long long)(start + index * interval), (long long)times[index]);
  }
  return 0;
}
