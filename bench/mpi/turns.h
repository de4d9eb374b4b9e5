// SPDX-License-Identifier: BSD-3-Clause
// Launches of one benchmark that run at the same time and take turns, batch by batch.
//
// The speed of a machine changes within seconds (frequency, other virtual machines on the host).
// Successive launches meet different speeds; batches that take turns meet the same. A rank sleeps
// in read() until its turn, so the launch with the turn has the cores.
//
// The launches form a ring. Each rank of a launch has a FIFO `PLACE.RANK`; a byte in the FIFO is
// the turn. The environment variable `BENCH_TURN=PLACE,NEXT` names the place of this launch and of
// the next. The process that starts the launches (manyhands_bench/turns.py) makes the FIFOs, keeps
// them open, and writes the first byte. Without the variable these functions do nothing. Limits:
// one rank a core; all launches take the same number of turns.
#ifndef MH_BENCH_TURNS_H
#define MH_BENCH_TURNS_H

// To be called after MPI_Init. Returns when this launch has its first turn, after all launches have
// started MPI.
void turns_begin(int rank);
// Passes the turn to the next launch, and waits for the next turn.
void turns_next(void);
// To be called before MPI_Finalize. Returns after all launches have made their measurements.
void turns_end(void);

#endif
