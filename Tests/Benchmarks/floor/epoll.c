// What the kernel alone costs over epoll: a loop that reads, and writes the answer. No server over epoll can be cheaper.

#define _GNU_SOURCE
#include "answer.h"

#include <sys/epoll.h>
#include <unistd.h>

int main(int count, char** arguments) {
  int listener = listen_on(count, arguments);
  int poller = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
  static struct epoll_event events[1024];
  for (;;) {
    int ready = epoll_wait(poller, events, 1024, -1);
    for (int i = 0; i < ready; i++) {
      struct connection* peer = events[i].data.ptr;
      if (!peer) {
        int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (socket < 0) continue;
        peer = new_connection(socket);
        event.data.ptr = peer;
        epoll_ctl(poller, EPOLL_CTL_ADD, socket, &event);
        if (write(socket, greeting, sizeof greeting) < 0) perror("floor");
        continue;
      }
      ssize_t got = read(peer->socket, peer->bytes + peer->held, sizeof peer->bytes - peer->held);
      if (got <= 0) {
        close(peer->socket);
        free(peer);
        continue;
      }
      peer->held += got;
      size_t length = answer_requests(peer, peer->out);
      // One request is under way on a connection, so that an answer always fits the socket's buffer.
      if (length && write(peer->socket, peer->out, length) != (ssize_t)length) perror("floor");
    }
  }
}
