// SPDX-License-Identifier: BSD-3-Clause
// Launches of one benchmark that run at the same time and take turns, batch by batch.
//
// The state of a machine changes within seconds (frequency, neighbours on the host), so launches
// one after the other are compared across such changes; batches in turn are not. A rank waits for
// its turn asleep, in read(): whoever has the turn has the cores.
//
// Each launch stands in a ring. Its ranks have a FIFO each, `PLACE.RANK`, out of which one byte is
// the turn; `BENCH_TURN=PLACE,NEXT` names the own place and that of the next launch. Whoever starts
// the launches makes the FIFOs, keeps them open, and puts the first byte in. Without the variable
// all of this does nothing. Limits: one rank a core; all launches take equally many turns.
#ifndef MH_BENCH_TURNS_H
#define MH_BENCH_TURNS_H

// After MPI_Init. Returns in the first turn of this launch, when all launches are there.
void turns_begin(int rank);
// Gives the turn on, and waits for the next one.
void turns_next(void);
// Before MPI_Finalize. Returns when all launches are through.
void turns_end(void);

#endif
