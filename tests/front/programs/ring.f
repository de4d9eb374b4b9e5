! SPDX-License-Identifier: BSD-3-Clause
! ring.c in Fortran 77 with mpif.h.
      program ring
      implicit none
      include 'mpif.h'
      integer rank, nranks, sum, got, too, to, from, ierr
      integer requests(2)
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
      to = mod(rank + 1, nranks)
      from = mod(rank + nranks - 1, nranks)
      call MPI_ISEND(rank, 1, MPI_INTEGER, to, 1, MPI_COMM_WORLD,
     &               requests(1), ierr)
      call MPI_IRECV(got, 1, MPI_INTEGER, from, 1, MPI_COMM_WORLD,
     &               requests(2), ierr)
      call MPI_WAITALL(2, requests, MPI_STATUSES_IGNORE, ierr)
      call MPI_SENDRECV(rank, 1, MPI_INTEGER, to, 2, too, 1,
     &                  MPI_INTEGER, from, 2, MPI_COMM_WORLD,
     &                  MPI_STATUS_IGNORE, ierr)
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_ALLREDUCE(got, sum, 1, MPI_INTEGER, MPI_SUM,
     &                   MPI_COMM_WORLD, ierr)
      if (got .ne. from .or. too .ne. from) sum = -1
      if (rank .eq. 0) write (*, '(a,i0)') 'ring ', sum
      call MPI_FINALIZE(ierr)
      end
