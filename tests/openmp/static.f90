! SPDX-License-Identifier: BSD-3-Clause
!
! Static loops in Fortran: each iteration of every execution has the thread of the first execution,
! which is a plain one.
!
! run: by test_static.py
module static_work
  use, intrinsic :: iso_c_binding
  use omp_lib
  implicit none
  integer, parameter :: many = 400, most = 3000
  integer :: self = 0
  integer :: others = 0
  integer :: number(many), first(many)
contains
  subroutine visit(i)
    integer, intent(in) :: i
    integer, volatile :: k
    do k = 1, 200 + mod(i, 50)
    end do
    number(i) = omp_get_thread_num() + 100 * omp_get_num_threads()
    if (system_thread() /= self) then
      !$omp atomic
      others = others + 1
    end if
  end subroutine

  integer function system_thread()
    interface
      integer(c_long) function syscall(what) bind(c, name='syscall')
        import :: c_long
        integer(c_long), value :: what
      end function
    end interface
    system_thread = int(syscall(186_c_long))
  end function

  logical function plain()
    integer :: i
    !$omp parallel do
    do i = 1, many
      call visit(i)
    end do
    !$omp end parallel do
    plain = .true.
  end function

  logical function sums()
    integer :: i, s
    s = 0
    !$omp parallel do schedule(static, 3) reduction(+ : s)
    do i = many, 1, -1
      call visit(i)
      s = s + i
    end do
    !$omp end parallel do
    sums = s == many * (many + 1) / 2
  end function

  logical function lasts()
    integer :: i, j, l
    l = -1
    !$omp parallel do collapse(2) lastprivate(l)
    do i = 0, 19
      do j = 1, 20
        call visit(20 * i + j)
        l = 20 * i + j
      end do
    end do
    !$omp end parallel do
    lasts = l == many
  end function

  subroutine play(name, case)
    character(*), intent(in) :: name
    interface
      logical function case()
      end function
    end interface
    integer :: times
    logical :: right
    others = 0
    do times = 1, most
      right = case()
      ! In the first execution, which is plain, the team's own threads count as others, too.
      if (times == 1) then
        first = number
        others = 0
      end if
      right = right .and. all(first == number)
      if (.not. right .or. (others /= 0 .and. times > 5)) exit
    end do
    print '(4a)', 'case ' // name, merge(' ok   ', ' WRONG', right), merge(' joined', ' alone ', others /= 0)
  end subroutine
end module

program static
  use mpi
  use static_work
  implicit none
  integer :: rank, error
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  self = system_thread()
  if (rank == 0) then
    call play('plain', plain)
    call play('sums', sums)
    call play('lasts', lasts)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
end program
