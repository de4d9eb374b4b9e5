// SPDX-License-Identifier: BSD-3-Clause
//
// A large message of MPI_PACKED is received with the type from which it was packed. The type is a
// structure of an integer and two doubles, with a gap. An RTS header would not end at one of its
// basic elements. Each kind of send sends the message, and so does MPI_Sendrecv_replace. A type
// made of MPI_PACKED counts as MPI_PACKED.
//
// run: ranks 2
// run: ranks 2 heap MH_MAPPED_THRESHOLD=4K
// run: ranks 2 helped MH_CORES=2 MH_MEMORY=cells
#include <stddef.h>

#include "check.h"

enum { ELEMENTS = LARGE / 20, BYTES = ELEMENTS * 20 };

typedef struct {
  int number;
  double pair[2];
} Element;

static MPI_Datatype element;

static void make_type(void) {
  const int lengths[] = {1, 2};
  const MPI_Aint places[] = {offsetof(Element, number), offsetof(Element, pair)};
  const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE};
  MPI_Type_create_struct(2, lengths, places, types, &element);
  MPI_Type_commit(&element);
}

static Element* elements_of(int key) {
  Element* made = calloc(ELEMENTS, sizeof *made);
  for (int i = 0; i < ELEMENTS; ++i)
    made[i] = (Element){.number = key + i, .pair = {key - i, key * (double)i}};
  return made;
}

static void check_elements(const Element* got, int key, const char* what) {
  for (int i = 0; i < ELEMENTS; ++i) {
    CHECK(
        got[i].number == key + i && got[i].pair[0] == key - i && got[i].pair[1] == key * (double)i,
        "%s: element %d", what, i);
  }
}

// ---- The sends of `count` elements of type `type` -----------------------------------------------

static void send(const void* packed, int count, MPI_Datatype type) {
  MPI_Send(packed, count, type, 1, TAG, MPI_COMM_WORLD);
}
static void start_synchronous(const void* packed, int count, MPI_Datatype type) {
  MPI_Request request;
  MPI_Issend(packed, count, type, 1, TAG, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void start_persistent(const void* packed, int count, MPI_Datatype type) {
  MPI_Request request;
  MPI_Send_init(packed, count, type, 1, TAG, MPI_COMM_WORLD, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
}

static const struct {
  const char* name;
  void (*send)(const void*, int, MPI_Datatype);
} ways[] = {
    {"MPI_Send", send}, {"MPI_Issend", start_synchronous}, {"MPI_Send_init", start_persistent}};

static void receive(int key, const char* what) {
  Element* got = calloc(ELEMENTS, sizeof *got);
  MPI_Status status;
  int count = -1;
  MPI_Recv(got, ELEMENTS, element, 0, TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, element, &count);
  CHECK(count == ELEMENTS, "%s: %d elements", what, count);
  check_elements(got, key, what);
  free(got);
}

static void send_packed(size_t way, int key) {
  Element* data = elements_of(key);
  char* packed = malloc(BYTES);
  int at = 0;
  MPI_Datatype twenty;
  MPI_Type_contiguous(20, MPI_PACKED, &twenty);
  MPI_Type_commit(&twenty);
  MPI_Pack(data, ELEMENTS, element, packed, BYTES, &at, MPI_COMM_WORLD);
  ways[way].send(packed, at, MPI_PACKED);
  ways[way].send(packed, ELEMENTS, twenty);
  MPI_Type_free(&twenty);
  free(packed);
  free(data);
}

static void replace(int key) {
  Element* data = elements_of(key + rank);
  MPI_Sendrecv_replace(data, ELEMENTS, element, 1 - rank, TAG, 1 - rank, TAG, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  check_elements(data, key + 1 - rank, "MPI_Sendrecv_replace");
  free(data);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  make_type();
  for (size_t way = 0; way < sizeof ways / sizeof ways[0]; ++way) {
    if (rank == 0) send_packed(way, (int)way);
    if (rank == 1) receive((int)way, ways[way].name);
    if (rank == 1) receive((int)way, ways[way].name);
    replace((int)way);
  }
  MPI_Type_free(&element);
  return end();
}
