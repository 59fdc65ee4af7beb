// offer [-tls] [-web | -page] PORT SECONDS RATE PATH < MESSAGES: a client that begins RATE calls a second of PATH, however long those
// before take, each with a deadline of a second from when it was due, after which it is cancelled. With a RATE below zero so
// many wait for answers at any time instead, as long as they take. The messages are lines of hexadecimal digits, and are sent
// in turn. With -tls the connections are by TLS, whose certificate nobody looks at. With -web the calls are gRPC-Web's, and with
// -page what the page's script asks in JSON: an answer of another status than 200 counts as a call's RESOURCE_EXHAUSTED.
//
// A call that finds no stream free is never sent. It stands for a person with a connection of their own to which the server
// does not come: waiting here for somebody else's stream, as calls of one program do, it would be sent when its time is
// nearly over, and so would all after it. Prints how many were due, what became of them, how busy this client was, in percent
// of its core, and how many microseconds after they were due 99 % of the calls were begun; then, in lines of their own, how
// many microseconds each took that was answered in time. Calls that were due in the first second, which is only a beginning, or
// in the last are not among those.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// Fewer streams than the server lets a connection have, and so many connections that a server which answers most of its calls
// has one for each. Timeouts go in steps, as clients that reuse their fields send them.
enum { CONNECTIONS = 400, OPEN = 90, STATUSES = 17, STEP = 20, STREAMS = 1 << 16 };
static const int64_t deadline = 1000000000;

typedef struct {
  int descriptor, open, isFull;
  SSL *tls;
  // Of a gRPC-Web call or a page: the status that its answer has had, of the stream that was answered last.
  uint32_t webStream;
  int webStatus;
  uint32_t next;
  nghttp2_hd_inflater *inflater;
  unsigned char in[1 << 16], out[1 << 16];
  size_t inCount, outCount, outBegin;
  // By stream: when the call was due; 0 once it is over.
  int64_t *due;
  uint32_t oldest;
} Connection;

static Connection connections[CONNECTIONS];
static int poller, isClosedLoop, isWeb, isPage;
static SSL_CTX *tls;
static const char *path;
static struct { unsigned char *bytes; size_t count; } *messages;
static size_t messageCount, nextMessage;
static int64_t windowBegin, windowEnd, measured, served, unanswered, unsent, reset, statuses[STATUSES];
static int32_t *times;
// How many calls were begun so many steps of 100 µs after they were due, but for the first second's.
enum { LAG_STEPS = 10001, LAG_STEP = 100000 };
static int64_t lags[LAG_STEPS];

_Noreturn static void fail(const char *why) {
  fprintf(stderr, "offer: %s\n", why);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void watch(Connection *it, int isFull) {
  if (it->isFull == isFull) return;
  it->isFull = isFull;
  struct epoll_event event = {.events = EPOLLIN | (isFull ? EPOLLOUT : 0), .data.ptr = it};
  epoll_ctl(poller, EPOLL_CTL_MOD, it->descriptor, &event);
}

// As read(2) and write(2), by TLS or without.
static ssize_t transfer(Connection *it, unsigned char *bytes, size_t count, int isWrite) {
  if (!it->tls) return isWrite ? write(it->descriptor, bytes, count) : read(it->descriptor, bytes, count);
  size_t done = 0;
  const int result = isWrite ? SSL_write_ex(it->tls, bytes, count, &done) : SSL_read_ex(it->tls, bytes, count, &done);
  if (result == 1) return (ssize_t)done;
  const int why = SSL_get_error(it->tls, result);
  errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
  return -1;
}

static void flush(Connection *it) {
  while (it->outBegin < it->outCount) {
    const ssize_t count = transfer(it, it->out + it->outBegin, it->outCount - it->outBegin, 1);
    if (count < 0 && errno == EAGAIN) return watch(it, 1);
    if (count <= 0) fail("the server has closed a connection");
    it->outBegin += (size_t)count;
  }
  it->outBegin = it->outCount = 0;
  watch(it, 0);
}

// Whether there is room for so many bytes more.
static int hasRoom(Connection *it, size_t count) {
  if (it->outCount + count > sizeof it->out) flush(it);
  return it->outCount + count <= sizeof it->out;
}

static void put(Connection *it, const void *bytes, size_t count) {
  if (!hasRoom(it, count)) fail("the server takes nothing any more");
  memcpy(it->out + it->outCount, bytes, count);
  it->outCount += count;
}

static void frame(Connection *it, size_t length, int kind, int flags, uint32_t stream) {
  const unsigned char header[9] = {length >> 16, length >> 8, length, kind, flags, stream >> 24, stream >> 16,
                                   stream >> 8, stream};
  put(it, header, sizeof header);
}

static void literal(unsigned char *block, size_t *end, const char *text) {
  const size_t length = strlen(text);
  if (length > 126) fail("a field is too long");
  block[(*end)++] = (unsigned char)length;
  memcpy(block + *end, text, length);
  *end += length;
}

static int64_t processor_time(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000000) +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * INT64_C(1000);
}

// The lag that 99 % of the calls had at most, in microseconds.
static int64_t usual_lag(void) {
  int64_t count = 0, passed = 0;
  for (int step = 0; step < LAG_STEPS; step++) count += lags[step];
  for (int step = 0; step < LAG_STEPS; step++) {
    passed += lags[step];
    if (passed * 100 >= count * 99) return (int64_t)step * LAG_STEP / 1000;
  }
  return 0;
}

// Sends a call that was due at `due` and has `left` nanoseconds.
static void call(Connection *it, int64_t due, int64_t left) {
  char timeout[16];
  snprintf(timeout, sizeof timeout, "%dm", (int)(left / 1000000 / STEP + 1) * STEP);
  const char *fields[][2] = {
      {":method", "POST"}, {":scheme", "http"},     {":path", path},
      {":authority", "localhost"}, {"te", "trailers"},
      {"content-type", isPage ? "application/json" : isWeb ? "application/grpc-web+proto" : "application/grpc"},
      {"grpc-timeout", timeout},
  };
  unsigned char block[512];
  size_t end = 0;
  for (size_t index = 0; index < sizeof fields / sizeof *fields - (isClosedLoop ? 1 : 0); index++) {
    // RFC 7541 §6.2.3, without Huffman coding.
    block[end++] = 0x10;
    literal(block, &end, fields[index][0]);
    literal(block, &end, fields[index][1]);
  }
  const uint32_t stream = it->next;
  if (stream / 2 >= STREAMS) fail("a connection has no number left for a stream");
  it->next += 2;
  it->open++;
  it->due[stream / 2] = due;
  const size_t index = nextMessage++ % messageCount;
  const size_t length = messages[index].count;
  frame(it, end, 1, 4, stream);
  put(it, block, end);
  frame(it, length + (isPage ? 0 : 5), 0, 1, stream);
  const unsigned char prefix[5] = {0, length >> 24, length >> 16, length >> 8, length};
  if (!isPage) put(it, prefix, 5);
  put(it, messages[index].bytes, length);
}

static int64_t *find(Connection *it, uint32_t stream) {
  if (stream / 2 >= it->next / 2) fail("an answer to no call");
  return it->due[stream / 2] ? &it->due[stream / 2] : NULL;
}

// A call is over, by an answer if `status` is zero.
static void finish(Connection *it, uint32_t stream, int status) {
  int64_t *due = find(it, stream);
  // It was cancelled.
  if (!due) return;
  const int64_t was = *due, took = now() - was;
  *due = 0;
  it->open--;
  if (status < 0 || status >= STATUSES) {
    reset++;
  } else if (status) {
    statuses[status]++;
  } else if (!isClosedLoop && took > deadline) {
    unanswered++;
  } else {
    served++;
    if (was >= windowBegin && was < windowEnd) times[measured++] = (int32_t)(took / 1000);
  }
}

// The grpc-status of a block, or what a page's status stands for; -1 where there is none.
static int status(Connection *it, const unsigned char *bytes, size_t count) {
  int found = -1;
  for (;;) {
    nghttp2_nv field;
    int flags = 0;
    const ssize_t used = nghttp2_hd_inflate_hd2(it->inflater, &field, &flags, bytes, count, 1);
    if (used < 0) fail("a block of fields cannot be decoded");
    bytes += used;
    count -= (size_t)used;
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) && field.namelen == 11 && !memcmp(field.name, "grpc-status", 11)) {
      found = atoi((const char *)field.value);
    }
    if (isPage && (flags & NGHTTP2_HD_INFLATE_EMIT) && field.namelen == 7 && !memcmp(field.name, ":status", 7)) {
      found = atoi((const char *)field.value) == 200 ? 0 : 8;
    }
    if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && count == 0) break;
  }
  nghttp2_hd_inflate_end_headers(it->inflater);
  return found;
}

// The status of a gRPC-Web call stands at the end of its body, that of a page came before it.
static void received_web(Connection *it, uint32_t stream, const unsigned char *bytes, size_t count, int isEnd) {
  const unsigned char *found = memmem(bytes, count, "grpc-status: ", 13);
  // Its line's end follows.
  if (found && isWeb) {
    it->webStream = stream;
    it->webStatus = atoi((const char *)found + 13);
  }
  if (isEnd) finish(it, stream, it->webStream == stream ? it->webStatus : -1);
}

static void received(Connection *it, const unsigned char *header) {
  const unsigned char *payload = header + 9;
  const size_t length = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
  const uint32_t stream = (uint32_t)(header[5] & 127) << 24 | (uint32_t)header[6] << 16 | (uint32_t)header[7] << 8 | header[8];
  switch (header[3]) {
    case 0:
      if (isWeb || isPage) received_web(it, stream, payload, length, header[4] & 1);
      break;
    case 1: {
      if (!(header[4] & 4)) fail("a block of fields in pieces");
      const int found = status(it, payload, length);
      if (isPage) {
        it->webStream = stream;
        it->webStatus = found;
      }
      if (header[4] & 1) finish(it, stream, found);
      break;
    }
    case 3: finish(it, stream, -1); break;
    case 4:
      if (!(header[4] & 1)) frame(it, 0, 4, 1, 0);
      break;
    case 6:
      if (header[4] & 1) break;
      frame(it, length, 6, 1, 0);
      put(it, payload, length);
      break;
    case 7: fail("the server says goodbye");
  }
}

static void read_all(Connection *it) {
  for (;;) {
    const ssize_t count = transfer(it, it->in + it->inCount, sizeof it->in - it->inCount, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) fail("the server has closed a connection");
    it->inCount += (size_t)count;
    size_t index = 0;
    while (it->inCount - index >= 9) {
      const size_t length = (size_t)it->in[index] << 16 | (size_t)it->in[index + 1] << 8 | it->in[index + 2];
      if (it->inCount - index - 9 < length) break;
      received(it, it->in + index);
      index += 9 + length;
    }
    memmove(it->in, it->in + index, it->inCount -= index);
  }
}

// Cancels what was due a second ago; the oldest call of a connection has the lowest number.
static void cancel_late(Connection *it, int64_t time) {
  for (; it->oldest < it->next; it->oldest += 2) {
    const int64_t due = it->due[it->oldest / 2];
    if (!due) continue;
    if (isClosedLoop || due + deadline > time) return;
    it->due[it->oldest / 2] = 0;
    it->open--;
    unanswered++;
    frame(it, 4, 3, 0, it->oldest);
    put(it, "\0\0\0\x08", 4);
  }
}

// Each connection comes from an address of its own, as people do.
static void begin(Connection *it, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)}, own = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  own.sin_addr.s_addr = htonl(0x7f010000 + 1 + (uint32_t)(it - connections));
  const int on = 1;
  it->descriptor = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(it->descriptor, (struct sockaddr *)&own, sizeof own)) fail("an address of the loopback cannot be used");
  if (connect(it->descriptor, (struct sockaddr *)&address, sizeof address)) fail("cannot connect");
  setsockopt(it->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (tls) {
    it->tls = SSL_new(tls);
    if (!it->tls || !SSL_set_fd(it->tls, it->descriptor) || SSL_connect(it->tls) != 1) fail("no connection by TLS");
  }
  it->next = it->oldest = 1;
  it->due = calloc(STREAMS, sizeof *it->due);
  if (!it->due || nghttp2_hd_inflate_new(&it->inflater)) fail("no memory");
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = it};
  epoll_ctl(poller, EPOLL_CTL_ADD, it->descriptor, &event);
  put(it, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  frame(it, 0, 4, 0, 0);
  // All the window that there is, so that no update has to be sent.
  frame(it, 4, 8, 0, 0);
  put(it, "\x7f\xfe\0\0", 4);
  fcntl(it->descriptor, F_SETFL, O_NONBLOCK);
  flush(it);
}

static void read_messages(void) {
  char *line = NULL;
  size_t room = 0;
  ssize_t count;
  while ((count = getline(&line, &room, stdin)) > 0) {
    messages = reallocarray(messages, messageCount + 1, sizeof *messages);
    if (!messages) fail("no memory");
    const size_t length = (size_t)(count - (line[count - 1] == '\n')) / 2;
    messages[messageCount].bytes = malloc(length + 1);
    messages[messageCount].count = length;
    for (size_t index = 0; index < length; index++) {
      unsigned value;
      if (sscanf(line + 2 * index, "%2x", &value) != 1) fail("a message is not hexadecimal");
      messages[messageCount].bytes[index] = (unsigned char)value;
    }
    messageCount++;
  }
  if (!messageCount) fail("no messages");
}

static Connection *with_room(void) {
  static size_t turn;
  for (size_t tried = 0; tried < CONNECTIONS; tried++) {
    Connection *it = &connections[turn++ % CONNECTIONS];
    if (it->open < OPEN && hasRoom(it, 4096)) return it;
  }
  return NULL;
}

static void use_tls(void) {
  static const unsigned char protocols[] = "\2h2";
  tls = SSL_CTX_new(TLS_client_method());
  if (!tls || SSL_CTX_set_alpn_protos(tls, protocols, sizeof protocols - 1)) fail("no TLS");
  SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

int main(int count, char **arguments) {
  for (; count > 1 && arguments[1][0] == '-'; count--, arguments++) {
    if (!strcmp(arguments[1], "-tls")) use_tls();
    else if (!strcmp(arguments[1], "-web")) isWeb = 1;
    else if (!strcmp(arguments[1], "-page")) isPage = 1;
    else break;
  }
  if (count != 5) fail("usage: offer [-tls] [-web | -page] PORT SECONDS RATE PATH < MESSAGES");
  const double seconds = atof(arguments[2]), rate = atof(arguments[3]);
  isClosedLoop = rate < 0;
  const int64_t waiting = isClosedLoop ? (int64_t)-rate : 0;
  path = arguments[4];
  read_messages();
  times = calloc((size_t)CONNECTIONS * STREAMS, sizeof *times);
  if (!times) fail("no memory");
  poller = epoll_create1(0);
  for (size_t index = 0; index < CONNECTIONS; index++) begin(&connections[index], atoi(arguments[1]));
  const int64_t before = processor_time();
  const int64_t start = now(), end = start + (int64_t)(seconds * 1e9);
  windowBegin = start + deadline;
  windowEnd = end - deadline;
  int64_t due = 0, busy = 0;
  for (;;) {
    int64_t time = now(), open = 0;
    if (time < end) busy = processor_time();
    for (size_t index = 0; index < CONNECTIONS; index++) open += connections[index].open;
    if (isClosedLoop) {
      for (; time < end && open < waiting; open++, due++) call(with_room(), time, deadline);
    } else {
      const int64_t all = (int64_t)((double)((time < end ? time : end) - start) * rate / 1e9);
      // None becomes free before answers are read.
      int isFull = 0;
      for (; due < all; due++) {
        const int64_t was = start + (int64_t)((double)due * 1e9 / rate), left = was + deadline - time;
        Connection *it = left > 0 && !isFull ? with_room() : NULL;
        if (!it) {
          isFull |= left > 0;
          unsent++;
          continue;
        }
        call(it, was, left);
        open++;
        if (was >= windowBegin) lags[time - was < deadline ? (time - was) / LAG_STEP : LAG_STEPS - 1]++;
      }
    }
    for (size_t index = 0; index < CONNECTIONS; index++) {
      cancel_late(&connections[index], time);
      flush(&connections[index]);
    }
    if (time >= end && open == 0) break;
    if (time >= end + 20 * deadline) fail("answers are missing");
    struct epoll_event events[CONNECTIONS];
    const int ready = epoll_wait(poller, events, CONNECTIONS, 1);
    for (int index = 0; index < ready; index++) read_all(events[index].data.ptr);
  }
  // What was due and found no stream, or came too late since this client was slow.
  printf("due %lld served %lld unanswered %lld unsent %lld reset %lld", (long long)due, (long long)served,
         (long long)unanswered, (long long)unsent, (long long)reset);
  for (int index = 1; index < STATUSES; index++) {
    if (statuses[index]) printf(" status-%d %lld", index, (long long)statuses[index]);
  }
  printf(" busy %lld lag %lld\n", (long long)((busy - before) * 100 / (end - start)), (long long)usual_lag());
  for (int64_t index = 0; index < measured; index++) printf("%d\n", times[index]);
  return 0;
}
