! SPDX-License-Identifier: BSD-3-Clause
! All ranks update variables of one shared window in marked loops, as in exclusion.c: an integer in a
! critical section, and a complex number of sixteen bytes by `ws atomic`.
! Prints the number of updates of each variable, and the expected number.
program exclusion
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 1000000
  integer :: ierr, rank, ranks, window, unit
  integer(MPI_ADDRESS_KIND) :: bytes
  type(c_ptr) :: base
  complex(8), pointer :: wide(:)
  integer(8), pointer :: counts(:)

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  bytes = 0
  if (rank == 0) bytes = 64
  call MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, base, window, ierr)
  call MPI_Win_shared_query(window, 0, bytes, unit, base, ierr)
  call c_f_pointer(base, wide, [4])
  call c_f_pointer(base, counts, [8])
  if (rank == 0) wide = 0
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call count_up(counts(7:8))
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call add_up(wide(1:1))
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    call report('critical', counts(7))
    call report('complex', int(aimag(wide(1)), 8))
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Win_free(window, ierr)
  call MPI_Finalize(ierr)
contains
  subroutine count_up(to)
    integer(8), volatile :: to(:)
    integer(8) :: before
    integer :: i
    !$ws do private(before) schedule(dynamic, 8)
    do i = 1, n
      !$ws critical (Counting)
      before = to(1)
      to(1) = before + 1
      !$ws end critical (Counting)
    end do
    !$ws end do
  end subroutine

  subroutine add_up(z)
    complex(8) :: z(1)
    integer :: i
    !$ws do schedule(dynamic, 8)
    do i = 1, n
      !$ws atomic
      z(1) = z(1) + &
             (0.0_8, 1.0_8)
    end do
    !$ws end do
  end subroutine

  subroutine report(name, updates)
    character(*), intent(in) :: name
    integer(8), intent(in) :: updates
    print '(a, ": ", i0, " updates of ", i0)', name, updates, int(n, 8) * ranks
  end subroutine
end program
