! SPDX-License-Identifier: BSD-3-Clause
! ring.c in Fortran with `use mpi`.
program ring
  use mpi
  implicit none
  integer :: rank, nranks, sum, got, too, to, from, ierr
  integer :: requests(2)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  to = mod(rank + 1, nranks)
  from = mod(rank + nranks - 1, nranks)
  call MPI_Isend(rank, 1, MPI_INTEGER, to, 1, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Irecv(got, 1, MPI_INTEGER, from, 1, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Sendrecv(rank, 1, MPI_INTEGER, to, 2, too, 1, MPI_INTEGER, from, 2, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(got, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (got /= from .or. too /= from) sum = -1
  if (rank == 0) write (*, '(a,i0)') 'ring ', sum
  call MPI_Finalize(ierr)
end program ring
