// What the kernel alone costs over io_uring: every socket is read by one lasting request into buffers that the kernel
// chooses, and the answers of a pass are handed over in the same system call that waits for the next requests.

#define _GNU_SOURCE
#include "answer.h"

#include <errno.h>
#include <liburing.h>
#include <unistd.h>

// Events that wait and sockets there may be, and buffers to read into: more than there are connections, by powers of two.
enum { ENTRIES = 4096, BUFFERS = 1024, BUFFER_SIZE = 4096 };

// The events of a connection are told apart by the lowest bit of its address.
enum { READ = 0, WRITE = 1 };

static struct io_uring ring;

static void must(int result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "uring: %s: %s\n", what, strerror(-result));
  exit(1);
}

// The next request to the kernel, about a socket in the ring's table.
static struct io_uring_sqe* next_entry(void) {
  struct io_uring_sqe* entry = io_uring_get_sqe(&ring);
  if (entry) return entry;
  must(io_uring_submit(&ring), "not submitted");
  return io_uring_get_sqe(&ring);
}

static void write_out(struct connection* peer, size_t length) {
  struct io_uring_sqe* entry = next_entry();
  io_uring_prep_send(entry, peer->socket, peer->out, length, MSG_NOSIGNAL);
  entry->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
  entry->user_data = (uintptr_t)peer | WRITE;
}

static void read_on(struct connection* peer) {
  struct io_uring_sqe* entry = next_entry();
  io_uring_prep_recv(entry, peer->socket, NULL, 0, 0);
  entry->ioprio |= IORING_RECV_MULTISHOT;
  entry->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
  entry->user_data = (uintptr_t)peer | READ;
}

static void accept_one(int socket) {
  if (socket < 0 || socket >= ENTRIES) return;
  struct connection* peer = new_connection(socket);
  must(io_uring_register_files_update(&ring, socket, &socket, 1), "no place for a socket");
  if (write(socket, greeting, sizeof greeting) < 0) perror("uring");
  read_on(peer);
}

static void end(struct connection* peer) {
  int none = -1;
  io_uring_register_files_update(&ring, peer->socket, &none, 1);
  close(peer->socket);
  free(peer);
}

int main(int count, char** arguments) {
  int listener = listen_on(count, arguments);
  struct io_uring_params parameters = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  must(io_uring_queue_init_params(ENTRIES, &ring, &parameters), "no ring");
  must(io_uring_register_files_sparse(&ring, ENTRIES), "no table of sockets");

  struct io_uring_buf_ring* buffers = aligned_alloc(4096, BUFFERS * sizeof(struct io_uring_buf));
  memset(buffers, 0, BUFFERS * sizeof(struct io_uring_buf));
  struct io_uring_buf_reg lent = {.ring_addr = (uintptr_t)buffers, .ring_entries = BUFFERS};
  must(io_uring_register_buf_ring(&ring, &lent, 0), "no buffers");
  static uint8_t bytes[BUFFERS][BUFFER_SIZE];
  int mask = io_uring_buf_ring_mask(BUFFERS);
  for (int i = 0; i < BUFFERS; i++) io_uring_buf_ring_add(buffers, bytes[i], BUFFER_SIZE, i, mask, i);
  io_uring_buf_ring_advance(buffers, BUFFERS);

  struct io_uring_sqe* entry = next_entry();
  io_uring_prep_multishot_accept(entry, listener, NULL, NULL, SOCK_NONBLOCK);
  entry->user_data = 0;
  for (;;) {
    must(io_uring_submit_and_wait(&ring, 1), "no events");
    struct io_uring_cqe* event;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&ring, head, event) {
      seen++;
      if (!event->user_data) {
        accept_one(event->res);
        continue;
      }
      if (event->user_data & WRITE) continue;
      struct connection* peer = (struct connection*)event->user_data;
      if (event->res == -ENOBUFS) {
        read_on(peer);
        continue;
      }
      if (event->res <= 0) {
        end(peer);
        continue;
      }
      int lent_buffer = event->flags >> IORING_CQE_BUFFER_SHIFT;
      size_t got = event->res;
      if (got > sizeof peer->bytes - peer->held) got = sizeof peer->bytes - peer->held;
      memcpy(peer->bytes + peer->held, bytes[lent_buffer], got);
      peer->held += got;
      io_uring_buf_ring_add(buffers, bytes[lent_buffer], BUFFER_SIZE, lent_buffer, mask, 0);
      io_uring_buf_ring_advance(buffers, 1);
      size_t length = answer_requests(peer, peer->out);
      if (length) write_out(peer, length);
      if (!(event->flags & IORING_CQE_F_MORE)) read_on(peer);
    }
    io_uring_cq_advance(&ring, seen);
  }
}
