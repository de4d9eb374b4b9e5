// SPDX-License-Identifier: BSD-3-Clause
//
// Several receives are under way into memory that overlaps, such as the corners of halos, or many
// messages into one buffer. Every message arrives with its own status, and every byte is from a
// message that was sent to that byte. A library that keeps an RTS header in the user's buffer until
// it copies the data would lose the header to another receive. (The standard forbids overlap; all
// libraries allow it.)
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 2 MH_MEMORY=cells MH_CORES=4
// run: ranks 4
// run: ranks 4 MH_CORES=8
// run: ranks 4 helped MH_FAKE_NODES=2
#include "check.h"

enum { ROOM = 700000, MOST = 64, STEP = 16 };

// The part of the buffer into which a message is received. The sender's data is contiguous.
typedef struct {
  size_t at;          // offset in the buffer
  size_t bytes;       // bytes of the message
  size_t block, gap;  // both in bytes; contiguous if gap is 0
} Piece;

typedef enum { STARTED, PERSISTENT, MADE_FIRST, MATCHED, BLOCKING, WAYS } Way;
typedef enum { ALL, ONE_BY_ONE, BACKWARDS, ANY, SOME, TESTED, ENDS } End;

static unsigned char *room, *out[MOST];
static MPI_Datatype types[MOST];

static bool covers(const Piece* piece, size_t byte) {
  if (byte < piece->at) return false;
  size_t there = byte - piece->at;
  if (piece->gap == 0) return there < piece->bytes;
  size_t stride = piece->block + piece->gap;
  return there / stride < piece->bytes / piece->block && there % stride < piece->block;
}

static unsigned char byte_for(const Piece* piece, size_t byte, int key) {
  size_t there = byte - piece->at;
  if (piece->gap == 0) return byte_of(key, there);
  size_t stride = piece->block + piece->gap;
  return byte_of(key, there / stride * piece->block + there % stride);
}

static size_t end_of(const Piece* piece) {
  if (piece->gap == 0) return piece->at + piece->bytes;
  return piece->at + piece->bytes / piece->block * (piece->block + piece->gap);
}

static void check_room(const Piece* pieces, int count, int key, const char* what) {
  size_t end = 0;
  for (int i = 0; i < count; ++i) end = end_of(&pieces[i]) > end ? end_of(&pieces[i]) : end;
  check_blank(room, end, ROOM, what);
  for (size_t byte = 0; byte < end; ++byte) {
    bool wanted = true, found = false;
    for (int i = 0; i < count && !found; ++i) {
      if (!covers(&pieces[i], byte)) continue;
      wanted = false;
      found = room[byte] == byte_for(&pieces[i], byte, key + i);
    }
    if (wanted) found = room[byte] == 0xee;
    CHECK(found, "%s: byte %zu is %02x", what, byte, room[byte]);
  }
}

static MPI_Datatype type_of(const Piece* piece) {
  MPI_Datatype type;
  if (piece->gap == 0) {
    MPI_Type_contiguous((int)piece->bytes, MPI_BYTE, &type);
  } else {
    MPI_Type_vector((int)(piece->bytes / piece->block), (int)piece->block,
                    (int)(piece->block + piece->gap), MPI_BYTE, &type);
  }
  MPI_Type_commit(&type);
  return type;
}

static void start_receive(const Piece* piece, int i, int source, Way way, MPI_Request* request) {
  void* place = room + piece->at;
  if (way == PERSISTENT) {
    MPI_Recv_init(place, 1, types[i], source, i, MPI_COMM_WORLD, request);
    MPI_Start(request);
  } else if (way == MADE_FIRST) {
    MPI_Start(request);
  } else if (way == MATCHED) {
    MPI_Message message;
    MPI_Mprobe(source, i, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(place, 1, types[i], &message, request);
  } else {
    MPI_Irecv(place, 1, types[i], source, i, MPI_COMM_WORLD, request);
  }
}

// Completes the receives by the calls of `end`. Persistent requests are not looked at with
// MPI_Request_get_status, because MPICH 5 treats them as inactive afterwards.
static void finish(const Piece* pieces, int count, int source, Way way, End end,
                   MPI_Request* requests) {
  bool looks = way != PERSISTENT && way != MADE_FIRST;
  MPI_Status statuses[MOST];
  int indices[MOST], found, flag;
  if (end == ALL) MPI_Waitall(count, requests, statuses);
  for (int i = 0; end == ONE_BY_ONE && i < count; ++i) MPI_Wait(&requests[i], &statuses[i]);
  for (int i = count - 1; end == BACKWARDS && i >= 0; --i) MPI_Wait(&requests[i], &statuses[i]);
  for (int i = 0; end == ANY && i < count; ++i) {
    MPI_Status status;
    MPI_Waitany(count, requests, &found, &status);
    statuses[found] = status;
  }
  for (int done = 0; end == SOME && done < count; done += found) {
    MPI_Status some[MOST];
    MPI_Waitsome(count, requests, &found, indices, some);
    for (int i = 0; i < found; ++i) statuses[indices[i]] = some[i];
  }
  for (int i = 0; end == TESTED && i < count; ++i) {
    for (flag = !looks; !flag;) MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
    CHECK(!looks || room[pieces[0].at] != 0xee, "a complete receive has brought nothing");
    for (flag = 0; !flag;) MPI_Test(&requests[i], &flag, &statuses[i]);
  }
  for (int i = 0; i < count; ++i) check_status(&statuses[i], source, i, (int)pieces[i].bytes);
}

static void tell(int whom) { MPI_Send(NULL, 0, MPI_BYTE, whom, 99, MPI_COMM_WORLD); }
static void hear(int whom) {
  MPI_Recv(NULL, 0, MPI_BYTE, whom, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Receives all messages. All receives are started before the receiver tests for any of them.
static void receive(const Piece* pieces, int count, int key, int source, Way way, End end) {
  MPI_Request requests[MOST];
  memset(room, 0xee, ROOM);
  for (int i = 0; way == MADE_FIRST && i < count; ++i) {
    MPI_Recv_init(room + pieces[i].at, 1, types[i], source, i, MPI_COMM_WORLD, &requests[i]);
  }
  int times = way == MADE_FIRST ? 2 : 1;
  for (int time = 0; time < times; ++time) {
    int last = way == BLOCKING ? count - 1 : count;
    if (way == MATCHED) tell(source);
    for (int i = 0; i < last; ++i) start_receive(&pieces[i], i, source, way, &requests[i]);
    if (way != MATCHED) tell(source);
    pass_time(0.002);
    if (way == BLOCKING) {
      MPI_Status status;
      MPI_Recv(room + pieces[last].at, 1, types[last], source, last, MPI_COMM_WORLD, &status);
      check_status(&status, source, last, (int)pieces[last].bytes);
    }
    finish(pieces, last, source, way, end, requests);
    check_room(pieces, count, key, "overlapping receives");
  }
  for (int i = 0; (way == PERSISTENT || way == MADE_FIRST) && i < count; ++i) {
    MPI_Request_free(&requests[i]);
  }
}

static void send(const Piece* pieces, int count, int key, int dest, Way way, bool backwards) {
  MPI_Request requests[MOST];
  for (int i = 0; i < count; ++i) fill(out[i], pieces[i].bytes, key + i);
  for (int time = 0; time < (way == MADE_FIRST ? 2 : 1); ++time) {
    hear(dest);
    for (int k = 0; k < count; ++k) {
      int i = backwards ? count - 1 - k : k;
      MPI_Isend(out[i], (int)pieces[i].bytes, MPI_BYTE, dest, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  }
}

// Each rank of a pair receives all pieces once, and sends them once: first the even ranks receive,
// then the odd ones.
static void play(const Piece* pieces, int count, int key, Way way, End end, bool backwards) {
  for (int i = 0; i < count; ++i) types[i] = type_of(&pieces[i]);
  for (int turn = 0; turn < 2; ++turn) {
    if (rank % 2 == turn) {
      receive(pieces, count, key, rank ^ 1, way, end);
    } else {
      send(pieces, count, key, rank ^ 1, way, backwards);
    }
  }
  for (int i = 0; i < count; ++i) MPI_Type_free(&types[i]);
}

#define PIECES(...) {__VA_ARGS__}, sizeof((Piece[]){__VA_ARGS__}) / sizeof(Piece)
static const struct {
  Piece pieces[4];
  int count;
} cases[] = {
    {PIECES({0, 200000, 0, 0}, {0, 150000, 0, 0})},   // same begin
    {PIECES({0, 200000, 0, 0}, {40, 150000, 0, 0})},  // within the RTS header
    {PIECES({40, 200000, 0, 0}, {0, 150000, 0, 0})},
    {PIECES({0, 400000, 0, 0}, {200000, 400000, 0, 0})},  // behind the RTS header
    {PIECES({200000, 400000, 0, 0}, {0, 400000, 0, 0})},
    {PIECES({0, 200000, 0, 0}, {0, 8, 0, 0}, {95, 1, 0, 0})},  // short upon long
    {PIECES({0, 8, 0, 0}, {90, 8, 0, 0}, {0, 200000, 0, 0})},  // long upon short
    {PIECES({0, 3000, 0, 0}, {0, 200000, 0, 0}, {10, 3000, 0, 0})},
    {PIECES({0, 96, 0, 0}, {0, 200000, 0, 0}, {0, 96, 0, 0})},
    {PIECES({0, 160000, 16, 16}, {0, 160000, 16, 16})},  // with gaps
    {PIECES({0, 160000, 16, 16}, {0, 100000, 0, 0})},
    {PIECES({0, 100000, 0, 0}, {0, 160000, 16, 16})},
    {PIECES({0, 160000, 16, 16}, {16, 160000, 16, 16})},  // in each other's gaps
    {PIECES({0, 160000, 16, 48}, {16, 160000, 16, 48}, {0, 80000, 8, 56}, {24, 8, 0, 0})},
    {PIECES({8, 16, 8, 24}, {0, 160000, 16, 16})},  // a short message with gaps
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void all_cases(int round) {
  for (int i = 0; i < CASES; ++i) {
    Way way = (Way)((i + round) % WAYS);
    End end = (End)((i + 2 * round) % ENDS);
    play(cases[i].pieces, cases[i].count, 10 * i + round, way, end, (i + round) % 2);
  }
}

// Exchanges messages as bandwidth tests do: a window of MOST messages into one buffer, one way or
// both ways.
static void windows(int bytes, bool both) {
  MPI_Request requests[2 * MOST];
  for (int repeat = 0; repeat < 3; ++repeat) {
    int used = 0;
    bool receives = both || rank % 2 == repeat % 2, sends = both || !receives;
    memset(room, 0xee, (size_t)bytes);
    for (int i = 0; receives && i < MOST; ++i) {
      MPI_Irecv(room, bytes, MPI_BYTE, rank ^ 1, 0, MPI_COMM_WORLD, &requests[used++]);
    }
    for (int i = 0; sends && i < MOST; ++i) {
      if (i < 2) fill(out[i], (size_t)bytes, 70 + repeat);
      MPI_Isend(out[i % 2], bytes, MPI_BYTE, rank ^ 1, 0, MPI_COMM_WORLD, &requests[used++]);
    }
    MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
    if (receives) check_bytes(room, (size_t)bytes, 70 + repeat, "a window of messages");
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Exchanges the halo of a field: rows at the north and south, columns, and corners, which overlap
// the rows and columns. Each rank receives from every rank, in an order that `round` decides.
static void halo(int round) {
  enum { SIDE = 512, N = 8 };
  static double field[SIDE][SIDE];
  MPI_Datatype column, corner;
  MPI_Type_vector(SIDE, 2, SIDE, MPI_DOUBLE, &column);
  MPI_Type_vector(2, 2, SIDE, MPI_DOUBLE, &corner);
  MPI_Type_commit(&column);
  MPI_Type_commit(&corner);
  double* at[N] = {
      &field[0][0], &field[SIDE - 16][0], &field[0][0],        &field[0][SIDE - 2],
      &field[0][0], &field[0][SIDE - 2],  &field[SIDE - 2][0], &field[SIDE - 2][SIDE - 2]};
  MPI_Datatype type[N] = {MPI_DOUBLE, MPI_DOUBLE, column, column, corner, corner, corner, corner};
  static double mine[16 * SIDE];
  for (int i = 0; i < 16 * SIDE; ++i) mine[i] = rank + 1;
  MPI_Request requests[2 * N];
  for (int k = 0; k < N; ++k) {
    int i = (k * 3 + round) % N, source = (rank + 1 + i % (ranks - 1)) % ranks;
    MPI_Irecv(at[i], i < 2 ? 16 * SIDE : 1, type[i], source, i, MPI_COMM_WORLD, &requests[k]);
  }
  for (int i = 0; i < N; ++i) {
    int dest = (rank + ranks - 1 - i % (ranks - 1)) % ranks;
    int count = i < 2 ? 16 * SIDE : i < 4 ? 2 * SIDE : 4;
    MPI_Isend(mine, count, MPI_DOUBLE, dest, i, MPI_COMM_WORLD, &requests[N + i]);
  }
  MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < N; ++i) {
    int source = (rank + 1 + i % (ranks - 1)) % ranks;
    double* middle = at[i] + (i < 2 ? SIDE + 100 : i < 4 ? 200 * SIDE : 0);
    CHECK(i >= 4 || *middle == source + 1, "halo: message %d brought %f", i, *middle);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Type_free(&column);
  MPI_Type_free(&corner);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  room = blank(ROOM);
  for (int i = 0; i < MOST; ++i) out[i] = blank(i < 4 ? 400000 : 1);
  // With more ranks than cores the test is slow, so each way of receiving runs once.
  for (int round = 0; round < (ranks > 2 ? WAYS : 2 * WAYS); ++round) all_cases(round);
  for (int round = 0; round < 16; ++round) halo(round);  // each order runs twice
  windows(100000, false);
  windows(100000, true);
  windows(2000, true);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int round = 0; round < 2; ++round) all_cases(round);
  windows(2000, true);
  return end();
}
