! SPDX-License-Identifier: BSD-3-Clause
! The triangular loop of loops.c in Fortran, with the same rows, options and output lines. Limits: a
! single chunk size; no --steal, --empty, --total, --divided. With -DMARKED the loop has `!$ws do`.
!   --micros LIST (500,2000,20000)   --chunks N (8)   --repeat N (40)   --balanced
! The C programs' files measure.c and stamps.c have the clock, the check and the printing.
module c_side
  use iso_c_binding
  implicit none

  type, bind(C) :: stamps  ! as in stamps.h
    real(c_double) :: start, loop_end, end
  end type

  interface
    real(c_double) function now_ns() bind(C)
      import :: c_double
    end function
    subroutine fail(what) bind(C)
      import :: c_char
      character(kind=c_char), intent(in) :: what(*)
    end subroutine
    subroutine print_config(program, argc, argv) bind(C)
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: program(*)
      integer(c_int), value :: argc
      type(c_ptr), value :: argv
    end subroutine
    subroutine print_loop(name, mine, count) bind(C)
      import :: c_char, c_int, stamps
      character(kind=c_char), intent(in) :: name(*)
      type(stamps), intent(in) :: mine(*)
      integer(c_int), value :: count
    end subroutine
  end interface
end module

module rows
  use c_side
  implicit none
  integer, parameter :: wide = selected_int_kind(18)

contains

  ! A dependency chain that compilers cannot shorten: its value depends on every step.
  real(c_double) function row(steps)
    integer(wide), intent(in) :: steps
    integer(wide) :: i
    row = 1
    do i = 1, steps
      row = row * 0.999999d0 + 1d-3
    end do
  end function

  real(c_double) function run_rows(first, end, chunk) result(total)
    integer(wide), intent(in) :: first, end
    integer, intent(in) :: chunk
    integer(wide) :: i
    total = 0
#ifdef MARKED
    !$ws do schedule(dynamic, chunk) reduction(+:total)
#else
    !$omp parallel do schedule(dynamic, chunk) reduction(+:total)
#endif
    do i = first, end - 1
      total = total + row(i)
    end do
#ifdef MARKED
    !$ws end do
#else
    !$omp end parallel do
#endif
  end function
end module

program loops
  use rows
  use mpi
  implicit none
  integer, parameter :: warm_ups = 3, most = 64
  integer :: rank, ranks, error, micros(most), lengths, chunk = 8, repeat = 40, i
  logical :: balanced = .false.
  double precision :: step

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, error)
  call parse()
  call print_config('loops' // c_null_char, 0, c_null_ptr)
  step = ns_per_step()
  do i = 1, lengths
    call measure(micros(i))
  end do
  call mpi_finalize(error)

contains

  subroutine parse()
    integer :: at
    character(len=256) :: word, value
    call read_list('500,2000,20000')
    at = 1
    do while (at <= command_argument_count())
      call get_command_argument(at, word)
      call get_command_argument(at + 1, value)
      at = at + 2
      select case (word)
      case ('--micros')
        call read_list(value)
      case ('--chunks')
        read (value, *, iostat=error) chunk
      case ('--repeat')
        read (value, *, iostat=error) repeat
      case ('--balanced')
        balanced = .true.
        at = at - 1
      case default
        call fail('unknown option; the head of loops.F90 lists them' // c_null_char)
      end select
    end do
    if (chunk < 1 .or. repeat < 1) then
      call fail('--chunks and --repeat are at least 1' // c_null_char)
    end if
  end subroutine

  subroutine read_list(text)
    character(len=*), intent(in) :: text
    integer :: status, at
    lengths = 1
    do at = 1, len_trim(text)
      if (text(at:at) == ',') lengths = lengths + 1
    end do
    status = 0
    if (lengths <= most) read (text, *, iostat=status) micros(1:lengths)
    if (lengths > most .or. status /= 0) then
      call fail('--micros takes whole numbers with commas between them' // c_null_char)
    end if
  end subroutine

  double precision function ns_per_step() result(best)
    integer(wide), parameter :: steps = 200000
    double precision :: start, spent
    integer :: k
    best = 1d30
    do k = 1, 5
      start = now_ns()
      if (row(steps) > 0) then
        spent = now_ns() - start
        best = min(best, spent)
      end if
    end do
    call mpi_bcast(best, 1, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, error)
    best = best / steps
  end function

  ! The rows `first` to `end` - 1 of this rank, with which the longest rank's loop takes `ns`.
  subroutine rows_for(ns, first, end)
    double precision, intent(in) :: ns
    integer(wide), intent(out) :: first, end
    double precision :: p, share
    integer(wide) :: all
    p = ranks
    share = merge(2d0, 2 * p * p / (2 * p - 1), balanced)
    all = int(sqrt(ns / step * share), wide)
    first = merge(0_wide, all * rank / ranks, balanced)
    end = merge(all, all * (rank + 1) / ranks, balanced)
  end subroutine

  double precision function repeat_once(first, end, times) result(total)
    integer(wide), intent(in) :: first, end
    type(stamps), intent(out) :: times
    call mpi_barrier(MPI_COMM_WORLD, error)
    times%start = now_ns()
    total = run_rows(first, end, chunk)
    times%loop_end = now_ns()
    call mpi_barrier(MPI_COMM_WORLD, error)
    times%end = now_ns()
  end function

  subroutine measure(length)
    integer, intent(in) :: length
    integer(wide) :: first, end, r
    type(stamps), allocatable :: times(:)
    type(stamps) :: unused
    double precision :: expected, total
    character(len=64) :: name
    integer :: k
    allocate (times(repeat))
    call rows_for(length * 1d3, first, end)
    expected = 0
    do r = first, end - 1
      expected = expected + row(r)
    end do
    do k = 1, warm_ups
      total = repeat_once(first, end, unused)
    end do
    do k = 1, repeat
      total = repeat_once(first, end, times(k))
      if (abs(total - expected) > 1d-9 * expected) then
        call fail('a loop gave a wrong sum' // c_null_char)
      end if
    end do
    write (name, '(a, 1x, i0, " us")') trim(merge('balanced', 'triangle', balanced)), length
    call print_loop(trim(name) // c_null_char, times, repeat)
  end subroutine
end program
