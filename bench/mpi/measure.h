// SPDX-License-Identifier: BSD-3-Clause
// The common part of the benchmark programs of this folder: time, samples, buffers, JSON lines.
//
// A *call* is one repetition. A *batch* is a run of calls timed together, so long that the cost of
// the clock (20-30 ns a reading) and of a stray interrupt do not matter. A *sample* is the result
// of a batch. Programs print every sample, and the reader chooses the estimator (`mh bench`: the
// median). Only rank 0 prints, one JSON object a line. Limits: plain MPI (3.0) and Linux. The
// programs do not use Manyhands' interfaces.
#ifndef MH_BENCH_MEASURE_H
#define MH_BENCH_MEASURE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum { kMaxSizes = 64 };

struct sizes {
  int count;
  size_t bytes[kMaxSizes];
};

// The samples of one measurement: one value a batch for each estimator, in nanoseconds.
struct samples {
  int batches;
  double* mean;    // whole batch / calls
  double* min;     // of the calls of the batch; NULL if calls are not timed one by one
  double* median;  // of the calls of the batch, or NULL like `min`
};

double now_ns(void);

// A page-aligned buffer from the heap, filled with `fill` by the caller and so on the caller's NUMA
// node. Huge pages follow the system's setting, as in any program. Ends the job when memory is
// short.
void* buffer_new(size_t bytes, unsigned char fill);
void buffer_free(void* buffer);

// Reads every 8 bytes from the low to the high address. The sum keeps the compiler from removing
// the reads.
uint64_t touch_low_to_high(const void* buffer, size_t bytes);

// "8,1K,4M" into sizes; ends the program with a usage message on a malformed list.
struct sizes parse_sizes(const char* text);
size_t parse_bytes(const char* text);

// ---- Options

// The type of an option: a number (int), a real (double), bytes (size_t), sizes (struct sizes), a
// text (const char*), or a flag without a value (int, 1 if given).
enum option_kind { kNumber, kReal, kBytes, kSizes, kText, kFlag };
struct option_to {
  const char* name;  // "batches" for --batches N
  enum option_kind kind;
  void* to;
};
// Parses the arguments. Ends the job with a message for an unknown option or a malformed value. The
// last entry of `options` has no name.
void parse_options(const char* program, int argc, char** argv, const struct option_to* options);

struct samples samples_new(int batches, int timed_calls);
void samples_free(struct samples* s);
// Computes batch `i` from `calls` single timings; sorts `each`.
void samples_store(struct samples* s, int i, double* each, int calls);

// Ends the job with a message from this rank, for example about a wrong byte or argument.
void fail(const char* what);

// Collective over MPI_COMM_WORLD. Prints the configuration line: program, arguments, MPI library,
// and the host and the affinity of every rank.
void print_config(const char* program, int argc, char** argv);
// Prints `"name": [values]` without line end; for lines composed by the caller (rank 0).
void print_values(const char* name, const double* values, int count);
void print_samples(const struct samples* s);

// Measures the physical limit of a transfer. Collective over `team`: all ranks copy `bytes` private
// bytes with memcpy at the same time. Rank 0 of the team gets the sum of the rates in bytes per ns
// (GB/s), one value a batch.
void memcpy_rate(MPI_Comm team, size_t bytes, int batches, double* rate);

#endif
