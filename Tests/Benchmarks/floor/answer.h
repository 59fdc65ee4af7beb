// The least that a server of polls does: finds the ends of requests by their frame headers, and answers each with the
// same bytes. No header is decoded, nothing is checked.

#pragma once
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PREFACE = 24, FRAME_HEADER = 9, DATA = 0, HEADERS = 1, SETTINGS = 4, WINDOW_UPDATE = 8, END_STREAM = 1 };

struct connection {
  int socket;
  int has_preface;
  size_t held;
  uint8_t bytes[4096];
  // The shortest request is two frames without payload; its answer is less than ten times as long.
  uint8_t out[10 * 4096];
};

// The answer's three frames, and where their stream ids go.
static uint8_t answer[128];
static size_t answer_length;
static size_t stream_ids[3];

static void add_frame(int number, uint8_t type, uint8_t flags, const void* payload, uint8_t length) {
  uint8_t* frame = answer + answer_length;
  frame[2] = length;
  frame[3] = type;
  frame[4] = flags;
  memcpy(frame + FRAME_HEADER, payload, length);
  stream_ids[number] = answer_length + 5;
  answer_length += FRAME_HEADER + length;
}

// A poll's answer: status 200 with its content-type, a message of three small fields, grpc-status 0.
static void make_answer(void) {
  static const uint8_t headers[] = "\x88\x0f\x10\x10" "application/grpc";
  static const uint8_t message[] = "\0\0\0\0\6\x08\1\x10\1\x18\2";
  static const uint8_t trailers[] = "\0\x0bgrpc-status\1" "0";
  add_frame(0, HEADERS, 4, headers, sizeof headers - 1);
  add_frame(1, DATA, 0, message, sizeof message - 1);
  add_frame(2, HEADERS, 4 | END_STREAM, trailers, sizeof trailers - 1);
}

// Answers what is complete. Returns what is to be written, in `out`.
static size_t answer_requests(struct connection* peer, uint8_t* out) {
  size_t place = 0, length = 0;
  if (!peer->has_preface) {
    if (peer->held < PREFACE) return 0;
    peer->has_preface = 1;
    place = PREFACE;
  }
  while (peer->held - place >= FRAME_HEADER) {
    const uint8_t* frame = peer->bytes + place;
    size_t payload = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
    if (peer->held - place < FRAME_HEADER + payload) break;
    if (frame[3] == SETTINGS && frame[4] == 0) {
      memcpy(out + length, "\0\0\0\4\1\0\0\0\0", FRAME_HEADER);
      length += FRAME_HEADER;
    }
    if (frame[3] == DATA && payload) {
      memcpy(out + length, "\0\0\4\x08\0\0\0\0\0", FRAME_HEADER);
      uint32_t credit = htonl(payload);
      memcpy(out + length + FRAME_HEADER, &credit, 4);
      length += FRAME_HEADER + 4;
    }
    if ((frame[3] == HEADERS || frame[3] == DATA) && frame[4] & END_STREAM) {
      memcpy(out + length, answer, answer_length);
      for (int i = 0; i < 3; i++) memcpy(out + length + stream_ids[i], frame + 5, 4);
      length += answer_length;
    }
    place += FRAME_HEADER + payload;
  }
  memmove(peer->bytes, peer->bytes + place, peer->held - place);
  peer->held -= place;
  return length;
}

// The settings that a server begins with: none.
static const uint8_t greeting[FRAME_HEADER] = {0, 0, 0, SETTINGS};

// A socket that listens on the port of the command line. Ends the program if there is none.
static int listen_on(int count, char** arguments) {
  int on = 1;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (count != 2) {
    fprintf(stderr, "usage: %s PORT\n", arguments[0]);
    exit(2);
  }
  address.sin_port = htons(atoi(arguments[1]));
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (struct sockaddr*)&address, sizeof address) || listen(listener, 1024)) {
    perror(arguments[0]);
    exit(1);
  }
  make_answer();
  return listener;
}

static struct connection* new_connection(int socket) {
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct connection* peer = calloc(1, sizeof *peer);
  peer->socket = socket;
  return peer;
}
