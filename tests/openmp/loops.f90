! SPDX-License-Identifier: BSD-3-Clause
!
! Shared loops in Fortran, free form: reductions, private data, lastprivate, atomic, critical.
!
! run: by test_matrix.py
module work
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: many = 400, most = 3000
  integer :: self = 0
  integer :: others = 0
  interface
    integer(c_int) function gettid() bind(c, name='gettid')
      import :: c_int
    end function
  end interface
contains
  subroutine visit(i)
    integer, intent(in) :: i
    integer, volatile :: k
    do k = 1, 200 + mod(i, 50)
    end do
    if (gettid() /= self) then
      !$omp atomic
      others = others + 1
    end if
  end subroutine

  logical function sums()
    integer :: i
    real(8) :: s
    integer(8) :: t
    s = 0
    t = 0
    !$omp parallel do schedule(dynamic, 2) reduction(+ : s, t)
    do i = 1, many
      call visit(i)
      s = s + i
      t = t + 2 * i
    end do
    !$omp end parallel do
    sums = s == many * (many + 1) / 2 .and. t == many * (many + 1)
  end function

  logical function lasts()
    integer :: i, l, p
    l = -1
    p = 4
    !$omp parallel do schedule(guided) lastprivate(l) firstprivate(p)
    do i = many, 1, -1
      call visit(i)
      if (p == 4) l = i
    end do
    !$omp end parallel do
    lasts = l == 1
  end function

  logical function arrays(n)
    integer, intent(in) :: n
    integer :: i, j, seen(n, n)
    seen = 0
    !$omp parallel do schedule(dynamic) collapse(2)
    do i = 1, n
      do j = 1, n
        call visit(j)
        seen(j, i) = seen(j, i) + 1
      end do
    end do
    !$omp end parallel do
    arrays = all(seen == 1)
  end function

  logical function locked()
    integer :: i, c, a
    c = 0
    a = 0
    !$omp parallel do schedule(dynamic)
    do i = 1, many
      call visit(i)
      !$omp critical
      c = c + 1
      !$omp end critical
      !$omp atomic
      a = a + 1
    end do
    !$omp end parallel do
    locked = c == many .and. a == many
  end function

  subroutine play(name, which)
    character(*), intent(in) :: name
    integer, intent(in) :: which
    logical :: right
    integer :: times
    others = 0
    right = .true.
    do times = 1, most
      select case (which)
      case (1)
        right = sums()
      case (2)
        right = lasts()
      case (3)
        right = arrays(20)
      case (4)
        right = locked()
      end select
      if (.not. right .or. (others /= 0 .and. times > 5)) exit
    end do
    print '(4A)', 'case ', name, merge(' ok    ', ' WRONG ', right), &
      merge('joined', 'alone ', others /= 0)
  end subroutine
end module

program loops
  use work
  implicit none
  include 'mpif.h'
  integer :: rank, ierr, i
  character(7), parameter :: names(4) = ['sums   ', 'lasts  ', 'arrays ', 'locked ']
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  self = gettid()
  do i = 1, 4
    if (rank == 0) call play(trim(names(i)), i)
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
end program
