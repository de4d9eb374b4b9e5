! SPDX-License-Identifier: BSD-3-Clause
! Directives in Fortran, free form: modules, internal procedures, sections, all clauses.
#define CHUNK 3
module work
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer, parameter :: n = 1000
  interface
    subroutine outside(total)
      integer, intent(inout) :: total
    end subroutine outside
  end interface
contains
  pure integer function twice(i)
    integer, intent(in) :: i
    twice = 2 * i
  end function twice

  subroutine clauses(total)
    use, intrinsic :: iso_fortran_env, only: real64
    integer(int64), intent(out) :: total
    integer :: i, last, scratch, offset
    real(real64) :: values(n)
    total = 0
    offset = 3
    !$ws do private(scratch) firstprivate(offset) lastprivate(last) & ! goes on
    !$ws & reduction(+:total) schedule(dynamic, CHUNK) steal_schedule(guided, n / 10)
    do i = 1, n
      scratch = twice(i) + offset
      total = total + scratch
      values(i) = scratch
      last = i
    end do
    !$ws end do
    call inner()
    print *, 'clauses', total, last, sum(values)
  contains
    subroutine inner()
      integer :: j
!$ws do collapse(2)
      do i = 1, 10
        do j = 1, 10
          !$ws critical (adding)
          total = total + i * j
          !$ws end critical (adding)
        end do
      end do
    end subroutine inner
  end subroutine clauses

  recursive function counted(m) result(count)
    integer, intent(in) :: m
    integer :: count, i, old
    count = 0
!$ws do schedule(guided) private(old)
    do i = 1, m
!$ws atomic
      count = count + 1
      if (mod(i, 2) == 0) cycle
!$ws critical
      old = count
!$ws end critical
    enddo
  end function counted
end module work

subroutine outside(total)
  implicit none
  integer, intent(inout) :: total
  integer :: a, b, c
  a = 0; b = 0; c = 0
  !$ws sections
  a = 1
  !$ws section
  b = 2
  !$ws section
  c = 3
  !$ws end sections
  total = total + a + 10 * b + 100 * c
end subroutine outside

program main
  use work
  implicit none
  integer(int64) :: total
  integer :: m = 5
!$ print *, 'never seen: this is for OpenMP'
  call clauses(total)
  call outside(m)
  print *, total, counted(500), m
#ifdef _OPENMP
  print *, 'never seen either'
#endif
end program main
