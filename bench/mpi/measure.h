// SPDX-License-Identifier: BSD-3-Clause
// The common part of the benchmark programs of this folder: time, samples, buffers, JSON lines.
//
// A *call* is one repetition. A *batch* is a run of calls, so long that the cost of the clock
// (20-30 ns a reading) and of an occasional interrupt do not matter. A *sample* is the result of a
// batch. Programs print every sample, and the reader of the output chooses the estimator (`mh
// bench`: the median). Only rank 0 prints, one JSON object a line. Limits: MPI 3.0 and Linux. The
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

// The samples of one measurement in nanoseconds. For each batch there is a value of each of up to
// three estimators of the time of a call: mean, least, median.
struct samples {
  int batches;
  double* mean;    // time of the batch divided by its number of calls
  double* min;     // of the calls of the batch; NULL if calls are not timed one by one
  double* median;  // of the calls of the batch; NULL if `min` is NULL
};

double now_ns(void);

// Allocates a page-aligned buffer and fills it with the byte `fill`. The calling thread is the
// first to write the pages, so they are on its NUMA node. Huge pages follow the system's setting,
// as in any program. Ends the MPI job when memory is short.
void* buffer_new(size_t bytes, unsigned char fill);
void buffer_free(void* buffer);

// Reads a buffer word by word (8 bytes), from the low to the high address, as a program that uses a
// message does. Returns the sum of the words, which keeps the compiler from removing the reads.
uint64_t touch_low_to_high(const void* buffer, size_t bytes);

// Two functions parse the text of an option: a list of sizes such as "8,1K,4M", or a single size.
// Both end the MPI job with a message if the text is malformed.
struct sizes parse_sizes(const char* text);
size_t parse_bytes(const char* text);

// ---- Options of the command line

// The kinds of options, with the C type of the value. A value is a number (int), a real (double),
// bytes (size_t), sizes (struct sizes), or a text (const char*). A flag has none (int, 1 if given).
enum option_kind { kNumber, kReal, kBytes, kSizes, kText, kFlag };
struct option_to {
  const char* name;  // "batches" for --batches N
  enum option_kind kind;
  void* to;
};
// Parses the arguments and stores the value of each option at its `to`. Ends the MPI job with a
// message if an option is unknown or a value is malformed. The last entry of `options` has no name.
void parse_options(const char* program, int argc, char** argv, const struct option_to* options);

struct samples samples_new(int batches, int timed_calls);
void samples_free(struct samples* s);
// Stores mean, minimum and median of batch `i` in `s`. `each` has the times of the batch's `calls`
// calls; this function sorts them.
void samples_store(struct samples* s, int i, double* each, int calls);

// Ends the MPI job with a message from this rank, for example about a wrong byte or argument.
void fail(const char* what);

// Collective over MPI_COMM_WORLD. Rank 0 prints the first line of the output, the configuration:
// program, arguments, MPI library, and the host and the affinity of every rank.
void print_config(const char* program, int argc, char** argv);
// Prints `"name": [values]` without a line end, as a part of a JSON line that the caller composes.
// Only rank 0 calls this and print_samples().
void print_values(const char* name, const double* values, int count);
void print_samples(const struct samples* s);

// Measures the physical limit of a transfer. Collective over `team`: all ranks copy `bytes` private
// bytes with memcpy at the same time. Rank 0 of the team gets the sum of the rates in bytes per ns
// (GB/s), one value a batch.
void memcpy_rate(MPI_Comm team, size_t bytes, int batches, double* rate);

#endif
