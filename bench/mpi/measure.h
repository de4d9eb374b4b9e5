// SPDX-License-Identifier: BSD-3-Clause
// The common part of the benchmark programs of this folder: time, samples, buffers, JSON lines.
//
// A *call* is one repetition. A *batch* is a run of calls timed together, long enough for the cost
// of the clock (20-30 ns a reading) and of a stray interrupt not to matter. A *sample* is the
// result of a batch. Programs print every sample, and the reader chooses the estimator (`mh bench`:
// the median). Only rank 0 prints, one JSON object a line. Limits: plain MPI (3.0) and Linux. The
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
  double* min;     // of the calls of the batch; NULL where calls are not timed one by one
  double* median;  // likewise
};

double now_ns(void);

// Page-aligned and from the heap, as buffers of programs are; touched by the caller (so on its own
// NUMA node), filled with `fill`. Huge pages are
// left to the system's setting, as for any program. Ends the job when memory is short.
void* buffer_new(size_t bytes, unsigned char fill);
void buffer_free(void* buffer);

// Reads every 8 bytes from the low to the high address; the sum keeps the compiler honest.
uint64_t touch_low_to_high(const void* buffer, size_t bytes);

// "8,1K,4M" into sizes; ends the program with a usage message on a malformed list.
struct sizes parse_sizes(const char* text);
size_t parse_bytes(const char* text);

// ---- Options

// The type of an option: a number (int), a real (double), bytes (size_t), sizes (struct sizes), a
// text (const char*), or a flag (int, 1 if it is given; without a value).
enum option_kind { kNumber, kReal, kBytes, kSizes, kText, kFlag };
struct option_to {
  const char* name;  // "batches" for --batches N
  enum option_kind kind;
  void* to;
};
// Ends the job with a message for what is not an option of `program`, or no value of one. The last
// entry of `options` has no name.
void parse_options(const char* program, int argc, char** argv, const struct option_to* options);

struct samples samples_new(int batches, int timed_calls);
void samples_free(struct samples* s);
// Batch `i` from `calls` single timings; sorts `each`.
void samples_store(struct samples* s, int i, double* each, int calls);

// Ends the job with a message from this rank: a wrong byte, a wrong argument.
void fail(const char* what);

// Collective over MPI_COMM_WORLD. Prints the configuration line: program, arguments, MPI library,
// and for every rank its host and the CPUs it may use.
void print_config(const char* program, int argc, char** argv);
// Prints `"name": [values]` without line end; for lines composed by the caller (rank 0).
void print_values(const char* name, const double* values, int count);
void print_samples(const struct samples* s);

// Measures the physical limit of a transfer. Collective over `team`: all ranks copy `bytes` private
// bytes with memcpy at the same time. Rank 0 of the team gets the sum of the rates in bytes per ns
// (GB/s), one value a batch.
void memcpy_rate(MPI_Comm team, size_t bytes, int batches, double* rate);

#endif
