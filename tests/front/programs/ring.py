# SPDX-License-Identifier: BSD-3-Clause
"""Makes the calls of ring.c with mpi4py, which loads the MPI library late and privately."""

from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
to, source = (rank + 1) % size, (rank - 1) % size
mine = array("i", [rank])
got, too, total = array("i", [-1]), array("i", [-1]), array("i", [0])
requests = [comm.Isend(mine, to, 1), comm.Irecv(got, source, 1)]
MPI.Request.Waitall(requests)
comm.Sendrecv(mine, to, 2, too, source, 2)
comm.Barrier()
comm.Allreduce(got, total, MPI.SUM)
if rank == 0:
    print("ring", total[0] if got[0] == source and too[0] == source else -1)
