// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0 starts to receive a large message into a buffer with gaps. Then it enters a call in which
// the MPI library waits or polls ($CALL), and from which rank 0 returns only after the message has
// been sent. Inside such a call rank 0 takes no rendezvous message. Each run tests one call,
// because the first of them may end rendezvous on the node.
//
// run: ranks 2 CALL=barrier
// run: ranks 2 heap CALL=barrier
// run: ranks 2 CALL=create_inter
// run: ranks 2 CALL=disconnect
// run: ranks 2 CALL=disconnect_idup
//
// run: ranks 2 CALL=detach
// run: ranks 2 CALL=set_window_info
// run: ranks 2 CALL=parrived not openmpi4
// run: ranks 2 CALL=flush not mpich4,openmpi4,openmpi5
// run: ranks 2 CALL=flush_comm not mpich4,openmpi4,openmpi5
//
// run: ranks 6 helped MH_FAKE_NODES=2 MH_CORES=6 CALL=nodes_barrier
// run: ranks 6 helped MH_FAKE_NODES=2 MH_CORES=6 CALL=nodes_bcast
// run: ranks 6 helped MH_FAKE_NODES=2 MH_CORES=6 CALL=two_node_barrier
#include "check.h"

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PARTITIONS
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define HAVE_FLUSH
#endif

enum { BLOCKS = 1000, BLOCK = LARGE / BLOCKS, SIDE_TAG = TAG + 1 };

static MPI_Comm comm = MPI_COMM_NULL;

// ---- The calls, and what precedes them ----------------------------------------------------------

static void nothing(void) {}

static void duplicate(void) { MPI_Comm_dup(MPI_COMM_WORLD, &comm); }

// A communicator of a constructor that Manyhands does not intercept.
static void duplicate_unseen(void) {
  MPI_Request request;
  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void make_inter(void) {
  MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 9, &comm);
}

static void make_by_color(bool inside) {
  MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, rank, &comm);
}
// With MH_FAKE_NODES=2 and six ranks, ranks 0, 1 and 2 are on the first node.
static void take_0_2_3(void) { make_by_color(rank == 0 || rank == 2 || rank == 3); }
static void take_0_3(void) { make_by_color(rank == 0 || rank == 3); }

static void barrier(void) {
  if (comm != MPI_COMM_NULL) MPI_Barrier(comm);
}
static void bcast(void) {
  int data = rank;
  if (comm != MPI_COMM_NULL) MPI_Bcast(&data, 1, MPI_INT, ranks > 2 ? 2 : 0, comm);
}
static void disconnect(void) { MPI_Comm_disconnect(&comm); }

static MPI_Win window;
static int in_window;
static void make_window(void) {
  MPI_Win_create(&in_window, sizeof in_window, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
}
static void set_window_info(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Win_set_info(window, info);
  MPI_Info_free(&info);
}

// Buffered messages from rank 0 that rank 1 receives after its own send.
static char *sent_buffered, *room;
static void attach(void) {
  sent_buffered = calloc(LARGE, 1);
  room = malloc(LARGE + MPI_BSEND_OVERHEAD);
  MPI_Buffer_attach(room, LARGE + MPI_BSEND_OVERHEAD);
}
static void send_buffered(void) {
  MPI_Bsend(sent_buffered, LARGE, MPI_BYTE, 1, SIDE_TAG, MPI_COMM_WORLD);
}
static void receive_buffered(void) {
  MPI_Recv(sent_buffered, LARGE, MPI_BYTE, 0, SIDE_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void detach(void) {
  int bytes;
  void* detached;
  if (rank == 0) send_buffered();
  if (rank == 0) MPI_Buffer_detach(&detached, &bytes);
  if (rank == 1) receive_buffered();
}

static void poll_partition(void) {
#ifdef HAVE_PARTITIONS
  char data[8] = "";
  MPI_Request request;
  int arrived = 0;
  if (rank == 1) {
    MPI_Psend_init(data, 1, 8, MPI_BYTE, 0, SIDE_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready(0, request);
  } else {
    MPI_Precv_init(data, 1, 8, MPI_BYTE, 1, SIDE_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    while (!arrived) MPI_Parrived(request, 0, &arrived);
  }
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
#endif
}

#ifdef HAVE_FLUSH
static void flush(void) {
  if (rank == 0) send_buffered();
  if (rank == 0) MPI_Buffer_flush();
  if (rank == 1) receive_buffered();
}
static void attach_to_comm(void) {
  duplicate();
  sent_buffered = calloc(LARGE, 1);
  room = malloc(LARGE + MPI_BSEND_OVERHEAD);
  MPI_Comm_attach_buffer(comm, room, LARGE + MPI_BSEND_OVERHEAD);
}
static void flush_comm(void) {
  if (rank == 0) MPI_Bsend(sent_buffered, LARGE, MPI_BYTE, 1, SIDE_TAG, comm);
  if (rank == 0) MPI_Comm_flush_buffer(comm);
  if (rank == 1) MPI_Recv(sent_buffered, LARGE, MPI_BYTE, 0, SIDE_TAG, comm, MPI_STATUS_IGNORE);
}
#endif

static const struct {
  const char* name;
  void (*prepare)(void);
  void (*call)(void);
} calls[] = {
    {"barrier", duplicate_unseen, barrier},
    {"create_inter", nothing, make_inter},
    {"disconnect", duplicate, disconnect},
    {"disconnect_idup", duplicate_unseen, disconnect},
    {"detach", attach, detach},
    {"set_window_info", make_window, set_window_info},
    {"parrived", nothing, poll_partition},
#ifdef HAVE_FLUSH
    {"flush", attach, flush},
    {"flush_comm", attach_to_comm, flush_comm},
#endif
    {"nodes_barrier", take_0_2_3, barrier},
    {"nodes_bcast", take_0_2_3, bcast},
    {"two_node_barrier", take_0_3, barrier},
};

// ---- The message --------------------------------------------------------------------------------

// Rank 1 sends to rank 0, and then tells rank 3, if there is one, that the message is sent.
static void send_large(void) {
  unsigned char* packed = filled(LARGE, 1);
  usleep(3000);
  MPI_Send(packed, LARGE, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
  if (ranks > 3) MPI_Send(packed, 1, MPI_BYTE, 3, SIDE_TAG, MPI_COMM_WORLD);
  free(packed);
}

static void beside(void (*call)(void)) {
  unsigned char *data = blank(2 * LARGE), *packed = blank(LARGE);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Datatype gaps;
  MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &gaps);
  MPI_Type_commit(&gaps);
  if (rank == 0) MPI_Irecv(data, 1, gaps, 1, TAG, MPI_COMM_WORLD, &request);
  if (rank == 0 && ranks == 2) usleep(5000);
  if (rank == 1) send_large();
  char sent;
  if (rank == 3) MPI_Recv(&sent, 1, MPI_BYTE, 1, SIDE_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  call();
  MPI_Status status;
  MPI_Wait(&request, &status);
  if (rank == 0) {
    check_status(&status, 1, TAG, LARGE);
    for (int i = 0; i < BLOCKS; ++i) memcpy(packed + i * BLOCK, data + 2 * i * BLOCK, BLOCK);
    check_bytes(packed, LARGE, 1, "beside a call");
  }
  MPI_Type_free(&gaps);
  free(packed);
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const char* wanted = getenv("CALL");
  bool found = false;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
    if (strcmp(calls[i].name, wanted) != 0) continue;
    found = true;
    calls[i].prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    beside(calls[i].call);
  }
  CHECK(found, "no call %s", wanted);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  if (strcmp(wanted, "set_window_info") == 0) MPI_Win_free(&window);
  return end();
}
